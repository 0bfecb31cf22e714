package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"
)

// scanner checks one JSON value without building anything: depth, number of
// fields, names that occur twice. Text is UTF-8 already.
type scanner struct {
	b []byte
	i int
}

type scanError struct {
	at   int
	what string
}

func (e *scanError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at+1) }

func (s *scanner) fail(format string, a ...any) error {
	return &scanError{s.i, fmt.Sprintf(format, a...)}
}

// checkText checks that line holds exactly one JSON value within the bounds.
func checkText(line []byte) error {
	if !utf8.Valid(line) {
		return &scanError{invalidAt(line), "not UTF-8"}
	}
	s := scanner{b: line}
	if err := s.value(0); err != nil {
		return err
	}
	if s.space(); s.i < len(s.b) {
		return s.fail("more than one value in a line")
	}
	return nil
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\r' || s.b[s.i] == '\n') {
		s.i++
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) value(depth int) error {
	s.space()
	if depth > maxDepth {
		return s.fail("nested deeper than %d", maxDepth)
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(word)) {
			s.i += len(word)
			return nil
		}
	}
	if s.i >= len(s.b) {
		return s.fail("the line ends too early")
	}
	return s.fail("not JSON")
}

func (s *scanner) array(depth int) error {
	s.i++
	if s.space(); s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return s.fail("expected , or ]")
		}
	}
}

func (s *scanner) object(depth int) error {
	var names names
	s.i++
	if s.space(); s.peek() == '}' {
		s.i++
		return nil
	}
	for n := 1; ; n++ {
		if s.space(); s.peek() != '"' {
			return s.fail("expected a field's name")
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		if n > maxFields {
			return s.fail("more than %d fields", maxFields)
		}
		if !names.add(name) {
			return s.fail("field %s occurs twice", short(name))
		}
		if s.space(); s.peek() != ':' {
			return s.fail("expected :")
		}
		s.i++
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.fail("expected , or }")
		}
	}
}

// str scans a string and returns it with its quotes.
func (s *scanner) str() ([]byte, error) {
	begin := s.i
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[begin:s.i], nil
		case c < 0x20:
			return nil, s.fail("control character in a string")
		case c == '\\':
			s.i++
			if err := s.escape(); err != nil {
				return nil, err
			}
		}
	}
	return nil, s.fail("the line ends in a string")
}

func (s *scanner) escape() error {
	switch c := s.peek(); c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.i++
			c := s.peek()
			if bytes.IndexByte([]byte("0123456789abcdefABCDEF"), c) < 0 {
				return s.fail("bad \\u escape")
			}
		}
		return nil
	}
	return s.fail("bad escape")
}

func (s *scanner) digits() int {
	begin := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - begin
}

func (s *scanner) number() error {
	begin := s.i
	if s.peek() == '-' {
		s.i++
	}
	zero := s.peek() == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return s.fail("not a number")
	}
	if s.peek() == '.' {
		s.i++
		if s.digits() == 0 {
			return s.fail("not a number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if s.digits() == 0 {
			return s.fail("not a number")
		}
	}
	if s.i-begin > 64 {
		return s.fail("a number of %d characters", s.i-begin)
	}
	return nil
}

// names is a set that is a list while it is small.
type names struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

// add reports whether the name is new.
func (n *names) add(name []byte) bool {
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(`"` + unquote(name) + `"`)
	}
	if n.many == nil {
		for _, have := range n.few[:n.n] {
			if bytes.Equal(have, name) {
				return false
			}
		}
		if n.n < len(n.few) {
			n.few[n.n] = name
			n.n++
			return true
		}
		n.many = map[string]struct{}{}
		for _, have := range n.few {
			n.many[string(have)] = struct{}{}
		}
	}
	if _, have := n.many[string(name)]; have {
		return false
	}
	n.many[string(name)] = struct{}{}
	return true
}

// unquote decodes a scanned string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(quoted)
	}
	return s
}

// short is a name for an error message.
func short(name []byte) string {
	return string(name[:min(len(name), 100)])
}

// member is one field of a checked object.
type member struct {
	name  string
	value []byte
}

// eachMember calls f for the members of an object that checkText has accepted.
func eachMember(object []byte, f func(member) error) error {
	s := scanner{b: object}
	s.space()
	if s.peek() != '{' {
		return s.fail("not an object")
	}
	s.i++
	for {
		if s.space(); s.peek() == ',' {
			s.i++
			continue
		}
		if s.peek() != '"' {
			return nil // the end
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		s.space()
		s.i++ // the colon
		s.space()
		begin := s.i
		if err := s.value(math.MinInt32); err != nil { // depth was checked
			return err
		}
		if err := f(member{unquote(name), s.b[begin:s.i]}); err != nil {
			return err
		}
	}
}
