package control

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Every command waits for a few messages to be written and read, by programs
// that have just been woken and whose caches are cold: reflection then takes as
// long as starting a process does. So messages are written by hand, and read by
// hand as long as they look the way they are written here; encoding/json decides
// about everything else.

// appendTo appends the message as encoding/json would write it.
func (m *Message) appendTo(b []byte) []byte {
	b = appendString(append(b, `{"type":`...), string(m.Type))
	b = appendInt(b, `,"id":`, m.ID)
	b = appendText(b, `,"command":`, m.Command)
	b = appendTexts(b, `,"argv":`, m.Argv)
	b = appendTexts(b, `,"env":`, m.Env)
	b = appendTrue(b, `,"env_again":true`, m.EnvAgain)
	b = appendText(b, `,"cwd":`, m.Cwd)
	if m.TTY != nil {
		b = strconv.AppendUint(append(b, `,"tty":{"rows":`...), uint64(m.TTY.Rows), 10)
		b = strconv.AppendUint(append(b, `,"cols":`...), uint64(m.TTY.Cols), 10)
		b = append(appendTrue(appendInt(b, `,"of":`, int64(m.TTY.Of)), `,"stops":true`, m.TTY.Stops), '}')
	}
	if m.Limits != nil {
		p, _ := json.Marshal(m.Limits) // numbers alone
		b = append(append(b, `,"limits":`...), p...)
	}
	b = appendTrue(b, `,"stdin":true`, m.Stdin)
	b = appendTrue(b, `,"own":true`, m.Own)
	b = appendInt(b, `,"fds":`, int64(m.FDs))
	b = appendInts(b, `,"further":`, m.Further)
	b = appendInts(b, `,"ignored":`, m.Ignored)
	if m.Agent != "" {
		b = appendString(append(b, `,"agent":`...), m.Agent)
	}
	b = appendInt(b, `,"grace_ms":`, m.GraceMS)
	b = appendInt(b, `,"signal":`, int64(m.Signal))
	b = appendInt(b, `,"rows":`, int64(m.Rows))
	b = appendInt(b, `,"cols":`, int64(m.Cols))
	if m.Stream != "" {
		b = appendString(append(b, `,"stream":`...), m.Stream)
	}
	b = appendText(b, `,"data":`, m.Data)
	b = appendInt(b, `,"bytes":`, int64(m.Bytes))
	b = appendInt(b, `,"step_id":`, m.StepID)
	b = appendInt(b, `,"time_ns":`, m.TimeNS)
	b = appendInt(b, `,"request":`, m.Request)
	b = appendInt(b, `,"port":`, int64(m.Port))
	b = appendInt(b, `,"pid":`, int64(m.PID))
	if m.ExitCode != nil {
		b = strconv.AppendInt(append(b, `,"exit_code":`...), int64(*m.ExitCode), 10)
	}
	b = appendInt(b, `,"duration_ns":`, m.DurationNS)
	b = appendTrue(b, `,"alone":true`, m.Alone)
	if m.Error != "" {
		b = appendString(append(b, `,"error":`...), m.Error)
	}
	b = appendInt(b, `,"version":`, int64(m.Version))
	for i, w := range m.Warnings {
		b = appendString(append(b, listStart(i, `,"warnings":`)...), w)
	}
	if len(m.Warnings) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendInt(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
}

func appendInts(b []byte, key string, list []int) []byte {
	for i, n := range list {
		b = strconv.AppendInt(append(b, listStart(i, key)...), int64(n), 10)
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

func appendTrue(b []byte, member string, yes bool) []byte {
	if !yes {
		return b
	}
	return append(b, member...)
}

func appendText(b []byte, key string, t Text) []byte {
	if t == "" {
		return b
	}
	return t.appendTo(append(b, key...))
}

func appendTexts(b []byte, key string, list []Text) []byte {
	for i, t := range list {
		b = t.appendTo(append(b, listStart(i, key)...))
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

// listStart is what comes before the i-th element of a list.
func listStart(i int, key string) string {
	if i > 0 {
		return ","
	}
	return key + "["
}

func (t Text) appendTo(b []byte) []byte {
	if utf8.ValidString(string(t)) {
		return appendString(b, string(t))
	}
	p, _ := t.MarshalJSON() // fails for no string
	return append(b, p...)
}

// appendString appends a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain(s[i]) {
			p, _ := json.Marshal(s) // fails for no string
			return append(b, p...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether encoding/json writes a byte of a string as it is.
func plain(c byte) bool {
	return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

// scanner reads a message that is written as appendTo writes it.
type scanner struct {
	p  []byte
	ok bool // so far
}

// scan reads a message as far as appendTo could have written it in plain
// characters, and reports whether that is all of it.
func scan(line []byte) (m *Message, ok bool) {
	s := &scanner{p: line, ok: true}
	m = new(Message)
	seen := uint32(0)
	s.take('{')
	for first := true; s.ok && !s.skip('}'); first = false {
		if !first {
			s.take(',')
		}
		bit := s.member(m)
		if seen&bit != 0 { // encoding/json knows what a key means that comes twice
			return nil, false
		}
		seen |= bit
	}
	return m, s.ok && len(s.p) == 0
}

// member reads a key and its value and returns a bit that stands for the key.
func (s *scanner) member(m *Message) uint32 {
	key := s.raw()
	s.take(':')
	switch string(key) {
	case "type":
		m.Type = known(s.raw())
		s.ok = s.ok && m.Type != ""
		return 1
	case "id":
		m.ID = s.number()
		return 1 << 1
	case "argv":
		m.Argv = s.texts()
		return 1 << 2
	case "env":
		m.Env = s.texts()
		return 1 << 3
	case "env_again":
		m.EnvAgain = s.true()
		return 1 << 4
	case "cwd":
		m.Cwd = Text(s.raw())
		return 1 << 5
	case "fds":
		m.FDs = s.int()
		return 1 << 6
	case "signal":
		m.Signal = s.int()
		return 1 << 7
	case "exit_code":
		n := s.int()
		m.ExitCode = &n
		return 1 << 8
	case "duration_ns":
		m.DurationNS = s.number()
		return 1 << 9
	case "alone":
		m.Alone = s.true()
		return 1 << 10
	case "pid":
		m.PID = s.int()
		return 1 << 11
	case "further":
		m.Further = s.ints()
		return 1 << 12
	case "ignored":
		m.Ignored = s.ints()
		return 1 << 13
	}
	s.ok = false
	return 0
}

// known returns the type that commands need, or "".
func known(name []byte) Type {
	for _, t := range []Type{TypeExec, TypeStepStarted, TypeStepCompleted} {
		if string(name) == string(t) {
			return t
		}
	}
	return ""
}

func (s *scanner) skip(c byte) bool {
	if len(s.p) == 0 || s.p[0] != c {
		return false
	}
	s.p = s.p[1:]
	return true
}

func (s *scanner) take(c byte) { s.ok = s.skip(c) && s.ok }

// raw reads a string without anything that needs a second look.
func (s *scanner) raw() []byte {
	s.take('"')
	for i, c := range s.p {
		if c == '"' {
			raw := s.p[:i]
			s.p = s.p[i+1:]
			return raw
		}
		if !plain(c) {
			break
		}
	}
	s.ok = false
	return nil
}

func (s *scanner) texts() (list []Text) {
	s.take('[')
	for s.ok {
		list = append(list, Text(s.raw()))
		if s.skip(']') {
			return list
		}
		s.take(',')
	}
	return nil
}

func (s *scanner) ints() (list []int) {
	s.take('[')
	for s.ok {
		list = append(list, s.int())
		if s.skip(']') {
			return list
		}
		s.take(',')
	}
	return nil
}

func (s *scanner) true() bool {
	for _, c := range []byte("true") {
		s.take(c)
	}
	return s.ok
}

// number reads a whole number of at most 18 digits.
func (s *scanner) number() (n int64) {
	minus := s.skip('-')
	digits := 0
	for digits < len(s.p) && s.p[digits] >= '0' && s.p[digits] <= '9' {
		n = n*10 + int64(s.p[digits]-'0')
		if digits++; digits > 18 {
			s.ok = false
			return 0
		}
	}
	if digits == 0 || s.p[0] == '0' && digits > 1 {
		s.ok = false
	}
	s.p = s.p[digits:]
	if minus {
		return -n
	}
	return n
}

func (s *scanner) int() int {
	n := s.number()
	if int64(int(n)) != n {
		s.ok = false
	}
	return int(n)
}
