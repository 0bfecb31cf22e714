package classifier

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// word reads a word; it is empty if none begins here.
func (s *scanner) word() (w word, err error) {
	start := s.pos
	var b strings.Builder
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\n', ';', '&', '|', '<', '>', ')':
			w.text = b.String()
			return w, nil
		case '(':
			if s.pos == start || strings.IndexByte("?*+@!", s.src[s.pos-1]) < 0 {
				w.text = b.String()
				return w, nil
			}
			// An extended pattern, or a mistake: either way not known.
			w.pattern, w.computed = true, true
			s.pos++
			if err = s.arithmetic(1); err != nil {
				return w, err
			}
		case '\\':
			s.pos++
			w.quoted = true
			if s.pos >= len(s.src) {
				b.WriteByte('\\')
			} else if s.src[s.pos] == '\n' {
				s.pos++
			} else {
				b.WriteByte(s.src[s.pos])
				s.pos++
			}
		case '\'':
			w.quoted = true
			text, rest, ok := strings.Cut(s.src[s.pos+1:], "'")
			if !ok {
				return w, errQuote
			}
			b.WriteString(text)
			s.pos = len(s.src) - len(rest)
		case '"':
			s.pos++
			w.quoted = true
			if err = s.inner(&w, &b, '"'); err != nil {
				return w, err
			}
		case '$', '`':
			if err = s.dollar(&w, &b); err != nil {
				return w, err
			}
		case '*', '?', '[', '{':
			w.pattern = true
			b.WriteByte(c)
			s.pos++
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
	w.text = b.String()
	return w, nil
}

// inner reads the inside of double quotes and the closing one, into b.
func (s *scanner) inner(w *word, b *strings.Builder, end byte) error {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == end && end != 0:
			s.pos++
			return nil
		case c == '\\' && s.pos+1 < len(s.src):
			if next := s.src[s.pos+1]; strings.IndexByte("$`\"\\", next) >= 0 {
				b.WriteByte(next)
			} else if next != '\n' {
				b.WriteString(s.src[s.pos : s.pos+2])
			}
			s.pos += 2
		case c == '$' || c == '`':
			if err := s.dollarIn(w, b, true); err != nil {
				return err
			}
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
	if end != 0 {
		return errQuote
	}
	return nil
}

// expand reads text in which only expansions matter, up to end.
func (s *scanner) expand(w *word, end byte) error {
	var b strings.Builder
	return s.inner(w, &b, end)
}

func (s *scanner) dollar(w *word, b *strings.Builder) error { return s.dollarIn(w, b, false) }

// dollarIn reads an expansion, or a dollar that is just one.
func (s *scanner) dollarIn(w *word, b *strings.Builder, quoted bool) error {
	start := s.pos
	switch {
	case s.src[s.pos] == '`':
		return s.backquote(w, b)
	case s.has("$(("):
		s.pos += 3
		w.computed = true
		b.WriteString("$(())")
		return s.arithmetic(2)
	case s.has("$("):
		s.pos += 2
		b.WriteString("$()")
		return s.substitute(w)
	case s.has("${"):
		s.pos += 2
		w.computed = true
		if err := s.parameter(); err != nil {
			return err
		}
		b.WriteString(s.src[start:s.pos])
	case s.has("$'") && !quoted:
		s.pos += 2
		w.quoted = true
		return s.ansi(b)
	case s.has(`$"`) && !quoted:
		s.pos += 2
		w.quoted = true
		return s.inner(w, b, '"')
	default:
		s.pos++
		if c := s.peek(0); strings.IndexByte("@*#?-$!0123456789", c) >= 0 && c != 0 {
			s.pos++
		} else {
			for s.pos < len(s.src) && identifier("_"+s.src[s.pos:s.pos+1]) {
				s.pos++
			}
		}
		w.computed = w.computed || s.pos > start+1
		b.WriteString(s.src[start:s.pos])
	}
	return nil
}

// substitute reads the commands of a substitution whose parenthesis is open,
// and notes in w what they give.
func (s *scanner) substitute(w *word) error {
	if s.depth >= maxDepth {
		return errDeep
	}
	in := &scanner{c: s.c, src: s.src, pos: s.pos, depth: s.depth + 1, funcs: s.funcs}
	err := in.list(')')
	s.pos = in.pos
	w.computed = true
	w.source = w.or(in.out)
	return err
}

// backquote reads `...`, in which backslashes are taken away before it is a
// script.
func (s *scanner) backquote(w *word, b *strings.Builder) error {
	var text strings.Builder
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '`':
			s.pos++
			w.computed = true
			b.WriteString("$()")
			return s.nested(w, text.String())
		case c == '\\' && s.pos+1 < len(s.src) && strings.IndexByte("$`\\", s.src[s.pos+1]) >= 0:
			s.pos++
			text.WriteByte(s.src[s.pos])
		default:
			text.WriteByte(c)
		}
	}
	return errQuote
}

func (s *scanner) nested(w *word, text string) error {
	if s.c.budget -= len(text); s.c.budget < 0 || s.depth >= maxDepth {
		return errDeep
	}
	in := &scanner{c: s.c, src: text, depth: s.depth + 1, funcs: s.funcs}
	err := in.list(0)
	w.source = w.or(in.out)
	return err
}

// arithmetic skips to the end of depth open parentheses; substitutions in it
// count.
func (s *scanner) arithmetic(depth int) error {
	outer := depth
	var w word
	var b strings.Builder
	for last := -1; s.pos < len(s.src); {
		switch c := s.src[s.pos]; c {
		case '(':
			depth++
			s.pos++
		case ')':
			s.pos++
			if depth--; depth == 0 {
				if outer == 2 && last != s.pos-1 {
					return errParen // $( (a) (b) ): not arithmetic
				}
				return nil
			}
			last = s.pos
		case '$', '`':
			if err := s.dollar(&w, &b); err != nil {
				return err
			}
		case '"':
			s.pos++
			if err := s.inner(&w, &b, '"'); err != nil {
				return err
			}
		case '\'':
			_, rest, ok := strings.Cut(s.src[s.pos+1:], "'")
			if !ok {
				return errQuote
			}
			s.pos = len(s.src) - len(rest)
		case '\\':
			s.pos = min(s.pos+2, len(s.src))
		default:
			s.pos++
		}
	}
	return errClose
}

// parameter skips to the end of ${...}.
func (s *scanner) parameter() error {
	if s.depth >= maxDepth {
		return errDeep
	}
	s.depth++
	defer func() { s.depth-- }()
	var w word
	var b strings.Builder
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case '}':
			s.pos++
			return nil
		case '$', '`':
			if err := s.dollar(&w, &b); err != nil {
				return err
			}
		case '"':
			s.pos++
			if err := s.inner(&w, &b, '"'); err != nil {
				return err
			}
		case '\\':
			s.pos = min(s.pos+2, len(s.src))
		default:
			s.pos++
		}
	}
	return errClose
}

// ansi reads the inside of $'...' and the closing quote.
func (s *scanner) ansi(b *strings.Builder) error {
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		s.pos++
		if c == '\'' {
			return nil
		}
		if c != '\\' || s.pos >= len(s.src) {
			b.WriteByte(c)
			continue
		}
		c = s.src[s.pos]
		s.pos++
		switch {
		case c >= '0' && c <= '7':
			s.pos--
			b.WriteByte(byte(s.number("01234567", 3, 8)))
		case c == 'x':
			b.WriteByte(byte(s.number("0123456789abcdefABCDEF", 2, 16)))
		case c == 'u' || c == 'U':
			n := 4
			if c == 'U' {
				n = 8
			}
			b.Write(utf8.AppendRune(nil, rune(s.number("0123456789abcdefABCDEF", n, 16))))
		default:
			if i := strings.IndexByte("abeEfnrtv", c); i >= 0 {
				c = "\a\b\x1b\x1b\f\n\r\t\v"[i]
			}
			b.WriteByte(c)
		}
	}
	return errQuote
}

func (s *scanner) number(set string, most, base int) uint64 {
	n := 0
	for n < most && s.pos+n < len(s.src) && strings.IndexByte(set, s.src[s.pos+n]) >= 0 {
		n++
	}
	v, err := strconv.ParseUint(s.src[s.pos:s.pos+n], base, 32)
	if err != nil {
		v = 0
	}
	s.pos += n
	return v
}
