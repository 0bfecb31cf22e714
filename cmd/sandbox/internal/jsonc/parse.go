package jsonc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Dialect says what is allowed beside plain JSON.
type Dialect struct {
	// Comments, of both kinds, and trailing commas: what editors call JSONC.
	Comments bool
}

// maxDepth bounds the nesting of arrays and objects.
const maxDepth = 1000

// SyntaxError is a document that is not valid. Line and Column are from 1, the
// column in bytes.
type SyntaxError struct {
	Line, Column int
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Problem)
}

// node is one value: src[start:end].
type node struct {
	start, end int
	object     bool
	members    []member
}

// member is one key of an object with its value. comma is the offset of the
// comma behind it, or -1.
type member struct {
	key   string
	start int
	value node
	comma int
}

type parser struct {
	src     []byte
	pos     int
	depth   int
	dialect Dialect
}

// parse reads a whole document. A byte order mark is skipped.
func parse(src []byte, d Dialect) (root node, err error) {
	p := &parser{src: src, dialect: d}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	if bytes.HasPrefix(src, []byte("\ufeff")) {
		p.pos = 3
	}
	root = p.value()
	p.space()
	if p.pos < len(src) {
		p.fail(p.pos, "there is more after the end of the document")
	}
	return root, nil
}

// fail ends the parse; parse recovers it.
func (p *parser) fail(at int, format string, args ...any) {
	panic(errorAt(p.src, at, fmt.Sprintf(format, args...)))
}

func errorAt(src []byte, at int, problem string) *SyntaxError {
	before := src[:min(at, len(src))]
	return &SyntaxError{
		Line:    bytes.Count(before, []byte("\n")) + 1,
		Column:  len(before) - bytes.LastIndexByte(before, '\n'),
		Problem: problem,
	}
}

// peek is the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// unexpected fails at the next byte.
func (p *parser) unexpected(want string) {
	if p.pos >= len(p.src) {
		p.fail(p.pos, "the document ends where %s should be", want)
	}
	p.fail(p.pos, "%q where %s should be", p.src[p.pos], want)
}

// space skips white space and comments.
func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		case '/':
			if !p.dialect.Comments {
				p.fail(p.pos, "a comment, which this file must not have")
			}
			p.comment()
		default:
			return
		}
	}
}

func (p *parser) comment() {
	rest := p.src[p.pos:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			p.pos += i
		} else {
			p.pos = len(p.src)
		}
	case bytes.HasPrefix(rest, []byte("/*")):
		i := bytes.Index(rest[2:], []byte("*/"))
		if i < 0 {
			p.fail(p.pos, "a comment without an end")
		}
		p.pos += i + 4
	default:
		p.unexpected("a comment")
	}
}

func (p *parser) value() node {
	p.space()
	n := node{start: p.pos}
	switch c := p.peek(); {
	case c == '{':
		n.object = true
		n.members = p.object()
	case c == '[':
		p.array()
	case c == '"':
		p.text()
	case c == '-' || c >= '0' && c <= '9':
		p.number()
	default:
		p.word()
	}
	n.end = p.pos
	return n
}

func (p *parser) enter() {
	p.pos++
	if p.depth++; p.depth > maxDepth {
		p.fail(p.pos-1, "nested deeper than %d", maxDepth)
	}
}

func (p *parser) leave() {
	p.pos++
	p.depth--
}

func (p *parser) object() (members []member) {
	p.enter()
	for p.space(); p.peek() != '}'; p.space() {
		if len(members) > 0 && members[len(members)-1].comma < 0 {
			p.unexpected("a comma or }")
		}
		if p.peek() != '"' {
			p.unexpected("a key in quotes or }")
		}
		m := member{start: p.pos, comma: -1}
		m.key = p.text()
		p.space()
		if p.peek() != ':' {
			p.unexpected("a colon")
		}
		p.pos++
		m.value = p.value()
		p.space()
		if p.peek() == ',' {
			m.comma = p.pos
			p.pos++
		}
		members = append(members, m)
	}
	if n := len(members); n > 0 && members[n-1].comma >= 0 && !p.dialect.Comments {
		p.fail(members[n-1].comma, "a comma before }")
	}
	p.leave()
	return members
}

func (p *parser) array() {
	p.enter()
	comma, first := -1, true
	for p.space(); p.peek() != ']'; p.space() {
		if !first && comma < 0 {
			p.unexpected("a comma or ]")
		}
		first, comma = false, -1
		p.value()
		p.space()
		if p.peek() == ',' {
			comma = p.pos
			p.pos++
		}
	}
	if comma >= 0 && !p.dialect.Comments {
		p.fail(comma, "a comma before ]")
	}
	p.leave()
}

// text reads a string and returns what it means.
func (p *parser) text() string {
	start := p.pos
	for p.pos++; ; p.pos++ {
		switch c := p.peek(); {
		case p.pos >= len(p.src):
			p.fail(start, "a string without an end")
		case c < 0x20:
			p.fail(p.pos, "a control character in a string")
		case c == '\\':
			p.pos++
		case c == '"':
			p.pos++
			var s string
			if err := json.Unmarshal(p.src[start:p.pos], &s); err != nil {
				p.fail(start, "a string with a wrong escape")
			}
			return s
		}
	}
}

func (p *parser) number() {
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte("+-.eE0123456789", p.src[p.pos]) >= 0 {
		p.pos++
	}
	if !json.Valid(p.src[start:p.pos]) {
		p.fail(start, "%.40q is not a number", p.src[start:p.pos])
	}
}

func (p *parser) word() {
	for _, w := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(p.src[p.pos:], []byte(w)) {
			p.pos += len(w)
			return
		}
	}
	p.unexpected("a value")
}
