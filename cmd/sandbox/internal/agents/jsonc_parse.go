package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// jsoncDialect says what is allowed beside plain JSON.
type jsoncDialect struct {
	// Comments, of both kinds, and trailing commas: what editors call JSONC.
	Comments bool
}

// maxDepth bounds the nesting of arrays and objects.
const maxDepth = 1000

// jsoncSyntaxError is a document that is not valid. Line and Column are from 1, the
// column in bytes.
type jsoncSyntaxError struct {
	Line, Column int
	Problem      string
}

func (e *jsoncSyntaxError) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Problem)
}

func errorAt(src []byte, at int, problem string) *jsoncSyntaxError {
	before := src[:min(at, len(src))]
	return &jsoncSyntaxError{
		Line:    bytes.Count(before, []byte("\n")) + 1,
		Column:  len(before) - bytes.LastIndexByte(before, '\n'),
		Problem: problem,
	}
}

// node is one value: src[start:end].
type node struct {
	start, end    int
	object, array bool
	members       []member
}

// member is one key of an object with its value, or an element of an array. comma is
// the offset of the comma behind it, or -1.
type member struct {
	key   string
	start int
	value node
	comma int
}

// parse reads a whole document. A byte order mark is skipped.
func parse(src []byte, d jsoncDialect) (node, error) {
	text := readable(src)
	if at := tooDeep(text); at >= 0 {
		return node{}, errorAt(src, at, fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	v, err := hujson.Parse(text)
	if err != nil {
		e := &jsoncSyntaxError{Line: 1, Column: 1}
		_, _ = fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Column)
		if end := errorAt(src, len(src), ""); e.Line > end.Line { // in the line end that readable adds
			e = end
		}
		e.Problem = fmt.Sprintf("%.100s", errors.Unwrap(err))
		return node{}, e
	}
	if !d.Comments && !v.IsStandard() {
		e := &json.SyntaxError{}
		_ = errors.As(json.Unmarshal(text, new(json.RawMessage)), &e)
		at, what := max(0, int(e.Offset)-1), "a comma at the end"
		if text[at] == '/' {
			what = "a comment"
		}
		return node{}, errorAt(src, at, what+", which this file must not have")
	}
	return nodeOf(src, &v), nil
}

// readable is src as [hujson.Parse] takes it, which refuses more than clients and
// editors do: a byte order mark, bytes that are not UTF-8, the line separators of Unicode
// in a comment, and a line comment that ends with the file. Every offset stays as it is.
func readable(src []byte) []byte {
	text := append(bytes.Clone(src), '\n')
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		copy(text, "   ")
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029' {
			copy(text[i:i+n], "\x7f\x7f\x7f")
		}
		i += n
	}
	return text
}

// tooDeep returns where text is nested deeper than maxDepth, or -1: hujson would take
// all of the stack.
func tooDeep(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			i += max(comment(text[i:]), 1) - 1
		}
	}
	return -1
}

// comment is the length of the comment that text begins with; 0 if it begins with none.
func comment(text []byte) int {
	end := "\n"
	switch {
	case bytes.HasPrefix(text, []byte("/*")):
		end = "*/"
	case !bytes.HasPrefix(text, []byte("//")):
		return 0
	}
	if i := bytes.Index(text[2:], []byte(end)); i >= 0 {
		return i + 2 + len(end)
	}
	return len(text)
}

func nodeOf(src []byte, v *hujson.Value) node {
	n := node{start: v.StartOffset, end: v.EndOffset}
	if a, ok := v.Value.(*hujson.Array); ok {
		n.array = true
		for i := range a.Elements {
			e := &a.Elements[i]
			m := member{start: e.StartOffset, value: nodeOf(src, e), comma: -1}
			if i < len(a.Elements)-1 || e.AfterExtra != nil {
				m.comma = e.EndOffset + len(e.AfterExtra)
			}
			n.members = append(n.members, m)
		}
		return n
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return n
	}
	n.object = true
	for i := range o.Members {
		name, value := &o.Members[i].Name, &o.Members[i].Value
		m := member{start: name.StartOffset, value: nodeOf(src, value), comma: -1}
		_ = json.Unmarshal(src[name.StartOffset:name.EndOffset], &m.key) // it is a valid string
		if i < len(o.Members)-1 || value.AfterExtra != nil {             // behind the last one: not nil if a comma follows
			m.comma = value.EndOffset + len(value.AfterExtra)
		}
		n.members = append(n.members, m)
	}
	return n
}
