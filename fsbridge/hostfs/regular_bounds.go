package hostfs

import (
	"bytes"
	"fmt"
)

// RegularBounds are how much a TOML text may hold before a parser sees it. A parser takes time and memory that grow faster than the text, where keys are many or
// nested: 200 KB can cost a minute and gigabytes.
type RegularBounds struct {
	Bytes int // of the text
	Keys  int // parts of names: "a.b = 1" has two
	Depth int // of what stands within each other: tables, arrays, parts of one name
}

// RegularSettings bound the files of our own: configurations and profiles.
func RegularSettings() RegularBounds { return RegularBounds{Bytes: 100 << 10, Keys: 1000, Depth: 16} }

// RegularAgents bound the files of agents, which grow with each project that one has worked in.
func RegularAgents() RegularBounds { return RegularBounds{Bytes: 1 << 20, Keys: 20_000, Depth: 32} }

// OverBoundsError says what a text has too much of.
type OverBoundsError struct {
	Line int // from 1; 0: the whole text
	What string
}

// Error implements error.
func (e *OverBoundsError) Error() string { return e.What }

// Check returns an [*OverBoundsError] for a text that is beyond the bounds. It looks at each byte once and knows no more of TOML than where strings and comments end, so
// what is no TOML may pass, and a dot in a number counts as one in a name.
func (b RegularBounds) Check(text []byte) error {
	if len(text) > b.Bytes {
		return &OverBoundsError{What: fmt.Sprintf("it has more than %s", size(int64(b.Bytes)))}
	}
	s := scan{text: text, line: 1}
	for s.at < len(text) {
		s.step()
		switch {
		case s.keys > b.Keys:
			return &OverBoundsError{s.line, fmt.Sprintf("it has more than %d keys", b.Keys)}
		case s.open > b.Depth || s.parts > b.Depth:
			return &OverBoundsError{s.line, fmt.Sprintf("more than %d tables, arrays or parts of a name stand within each other", b.Depth)}
		}
	}
	return nil
}

// scan goes through a text.
type scan struct {
	text  []byte
	at    int
	line  int
	keys  int
	open  int // brackets
	parts int // of the name that may stand here
}

// step takes what stands at the place: a string, a comment or one byte.
func (s *scan) step() {
	switch c := s.text[s.at]; c {
	case '"', '\'':
		s.str(c)
		return
	case '#':
		if n := bytes.IndexByte(s.text[s.at:], '\n'); n >= 0 {
			s.at += n
		} else {
			s.at = len(s.text)
		}
		return
	case '\n':
		s.line++
		s.parts = 0
	case '=':
		s.keys++
		s.parts = 0
	case '.':
		s.keys++
		s.parts++
	case '[', '{':
		s.keys++ // the header of a table; of an array this is one too many
		s.open++
		s.parts = 0
	case ']', '}':
		s.open = max(s.open-1, 0)
	case ',':
		s.parts = 0
	}
	s.at++
}

// str takes a string. One that does not end on its line ends there: a parser goes no further.
func (s *scan) str(quote byte) {
	long := bytes.Repeat([]byte{quote}, 3)
	multi := bytes.HasPrefix(s.text[s.at:], long)
	s.at++
	if multi {
		s.at += 2
	}
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\\' && quote == '"' && s.at+1 < len(s.text) && s.text[s.at+1] != '\n':
			s.at++
		case c == '\n' && !multi:
			return
		case c == '\n':
			s.line++
		case c == quote && !multi:
			s.at++
			return
		case c == quote && bytes.HasPrefix(s.text[s.at:], long):
			s.at += 3
			for i := 0; i < 2 && s.at < len(s.text) && s.text[s.at] == quote; i++ { // they belong to the string
				s.at++
			}
			return
		}
		s.at++
	}
}
