package frontend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Limits on the shape of one JSON value. No request needs a tenth of them; what
// is beyond them is refused before anything is made of it.
const (
	// MaxDepth is how deep arrays and objects may be nested: a value may have this
	// many around it.
	MaxDepth = 32
	// MaxFields is how many fields an object may have.
	MaxFields = 1024
	maxNumber = 64 // characters
)

// JSONError is why a line is refused.
type JSONError struct {
	At   int // byte, from 0
	What string
	// Malformed says that it is no JSON at all; otherwise its shape is refused.
	Malformed bool
}

func (e *JSONError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.At+1) }

// CheckJSON checks that line holds exactly one JSON value in UTF-8 which every
// reader understands alike: no name twice in an object, within the limits of
// depth, fields and length of numbers. The error is a *[JSONError].
func CheckJSON(line []byte) error { return check(scanner{b: line}) }

// CheckFiniteJSON is CheckJSON that refuses numbers beyond a float64 also: for
// a reader that takes all numbers as such.
func CheckFiniteJSON(line []byte) error { return check(scanner{b: line, finite: true}) }

func check(s scanner) error {
	if !utf8.Valid(s.b) {
		return &JSONError{At: invalidAt(s.b), What: "not UTF-8", Malformed: true}
	}
	if err := s.value(0); err != nil {
		return err
	}
	if s.space(); s.i < len(s.b) {
		return s.fail("something follows the value on its line")
	}
	return nil
}

// scanner checks one JSON value without building anything. Text is UTF-8 already.
type scanner struct {
	b      []byte
	i      int
	finite bool
	deep   bool // the depth was checked already
}

// fail is for what is no JSON, refuse for a shape that is refused.
func (s *scanner) fail(what string) error {
	return &JSONError{At: s.i, What: what, Malformed: true}
}

func (s *scanner) refuse(format string, a ...any) error {
	return &JSONError{At: s.i, What: fmt.Sprintf(format, a...)}
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
	if depth > MaxDepth && !s.deep {
		return s.refuse("nested deeper than %d", MaxDepth)
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
		if n > MaxFields {
			return s.refuse("more than %d fields", MaxFields)
		}
		if !names.add(name) {
			return s.refuse("field %s occurs twice", Short(name))
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
	if s.i-begin > maxNumber {
		return s.refuse("a number of %d characters is too large", s.i-begin)
	}
	if s.finite {
		if _, err := strconv.ParseFloat(string(s.b[begin:s.i]), 64); err != nil {
			return s.refuse("the number %.32s is too large", s.b[begin:s.i])
		}
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
		name = []byte(`"` + Unquote(name) + `"`)
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

// Unquote decodes a string of a checked value.
func Unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(quoted)
	}
	return s
}

// Short cuts a name for an error message.
func Short(name []byte) string {
	return string(name[:min(len(name), 100)])
}

// Member is one field of a checked object.
type Member struct {
	Name  string
	Value []byte
}

// EachMember calls f for the fields of an object that [CheckJSON] has accepted,
// in their order, and returns the first error.
func EachMember(object []byte, f func(Member) error) error {
	s := scanner{b: object, deep: true}
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
		if err := s.value(0); err != nil {
			return err
		}
		if err := f(Member{Unquote(name), s.b[begin:s.i]}); err != nil {
			return err
		}
	}
}
