package mcp

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Most messages are a request of a plain shape. Reading those in one pass, while
// the command's client waits and all caches are cold, takes a tenth of the time
// that three decoders take. Whatever is not plain is left to them, and so is
// finding out what is wrong with it.

// Limits of the plain shape.
const (
	plainDepth   = 16
	plainMembers = 16
)

// scanner reads JSON of the plain shape.
type scanner struct {
	text  []byte
	at    int
	depth int
}

// member is one of an object: its key, and its value as it is written.
type member struct{ key, value []byte }

// object is a plain object's members.
type object struct {
	members [plainMembers]member
	n       int
}

// scanObject reads a text that is one plain object, without its strings' and
// keys' meaning: no key is escaped or there twice, at any depth.
func scanObject(text []byte) (o object, ok bool) {
	if !utf8.Valid(text) {
		return o, false
	}
	s := &scanner{text: text}
	s.space()
	if ok = s.object(&o); !ok {
		return o, false
	}
	s.space()
	return o, s.at == len(text)
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\r' || s.text[s.at] == '\n') {
		s.at++
	}
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) object(o *object) bool {
	if s.depth++; s.depth > plainDepth || !s.take('{') {
		return false
	}
	for s.space(); !s.take('}'); s.space() {
		if o.n > 0 {
			if !s.take(',') {
				return false
			}
			s.space()
		}
		if o.n == plainMembers || !s.member(o) {
			return false
		}
	}
	s.depth--
	return true
}

// member reads a key and its value.
func (s *scanner) member(o *object) bool {
	begin := s.at
	if escaped, ok := s.string(); !ok || escaped {
		return false
	}
	m := &o.members[o.n]
	m.key = s.text[begin+1 : s.at-1]
	for _, other := range o.members[:o.n] {
		if string(other.key) == string(m.key) {
			return false
		}
	}
	s.space()
	if !s.take(':') {
		return false
	}
	s.space()
	begin = s.at
	if !s.value() {
		return false
	}
	m.value = s.text[begin:s.at]
	o.n++
	return true
}

func (s *scanner) value() bool {
	switch c := s.peek(); {
	case c == '{':
		var inner object
		return s.object(&inner)
	case c == '[':
		return s.array()
	case c == '"':
		_, ok := s.string()
		return ok
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.word("true") || s.word("false") || s.word("null")
}

func (s *scanner) array() bool {
	if s.depth++; s.depth > plainDepth {
		return false
	}
	s.at++
	for first := true; ; first = false {
		if s.space(); s.take(']') {
			s.depth--
			return true
		}
		if !first && !s.take(',') {
			return false
		}
		if s.space(); !s.value() {
			return false
		}
	}
}

// string reads a string and tells whether there is an escape in it.
func (s *scanner) string() (escaped, ok bool) {
	if !s.take('"') {
		return false, false
	}
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return escaped, true
		case c == '\\':
			escaped = true
			if s.at++; !slices.Contains([]byte(`"\/bfnrt`), s.peek()) {
				return true, false // \u is not plain
			}
		case c < ' ':
			return escaped, false
		}
		s.at++
	}
	return escaped, false
}

// number reads a number without an exponent.
func (s *scanner) number() bool {
	begin := s.at
	s.take('-')
	zero := s.peek() == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return false
	}
	if s.take('.') && s.digits() == 0 {
		return false
	}
	c := s.peek()
	return c != 'e' && c != 'E' && s.at-begin <= maxNumber
}

func (s *scanner) digits() (n int) {
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
		n++
	}
	return n
}

func (s *scanner) word(w string) bool {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// unquoted returns a string's text if it is written without escapes.
func unquoted(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' || slices.Contains(value, '\\') {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

// scanRequest reads a request or notification of the plain shape as
// [jsonrpc.DecodeMessage] would, and what inspect keeps of it.
func scanRequest(text []byte) (*jsonrpc.Request, envelope, bool) {
	o, ok := scanObject(text)
	if !ok {
		return nil, envelope{}, false
	}
	req, env := &jsonrpc.Request{}, envelope{}
	for _, m := range o.members[:o.n] {
		switch string(m.key) {
		case "jsonrpc":
			env.Version, ok = unquoted(m.value)
			ok = ok && env.Version == "2.0"
		case "method":
			req.Method, ok = unquoted(m.value)
			env.Method = &req.Method
		case "params":
			req.Params, ok = m.value, m.value[0] == '{'
		case "id":
			env.ID = m.value
			req.ID, ok = plainID(m.value)
		default:
			ok = false
		}
		if !ok {
			return nil, envelope{}, false
		}
	}
	return req, env, req.Method != "" && env.Version != ""
}

func plainID(value []byte) (jsonrpc.ID, bool) {
	if !validID(value) {
		return jsonrpc.ID{}, false
	}
	var v any
	if text, ok := unquoted(value); ok {
		v = text
	} else if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		v = float64(n)
	} else {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(v)
	return id, err == nil
}

// simple is what a schema says if that is only which members an object has,
// which of them it must have, and which scalar each is. A schema that says more
// is not simple: nothing fits it.
type simple struct {
	properties map[string]*jsonschema.Schema
	required   []string
}

func simplify(s *jsonschema.Schema) simple {
	rest := *s
	rest.Type, rest.Properties, rest.Required, rest.PropertyOrder, rest.AdditionalProperties = "", nil, nil, nil, nil
	if s.Type != "object" || !reflect.DeepEqual(rest, jsonschema.Schema{}) {
		return simple{}
	}
	out := simple{properties: map[string]*jsonschema.Schema{}, required: s.Required}
	for name, p := range s.Properties {
		rest := *p
		rest.Type, rest.Description, rest.Minimum, rest.Maximum = "", "", nil, nil
		if reflect.DeepEqual(rest, jsonschema.Schema{}) {
			out.properties[name] = p
		}
	}
	return out
}

// fits reports whether a text is surely valid.
func (s simple) fits(text json.RawMessage) bool {
	o, ok := scanObject(text)
	if !ok || s.properties == nil {
		return false
	}
	required := 0
	for _, m := range o.members[:o.n] {
		p := s.properties[string(m.key)]
		if p == nil || !scalar(p, m.value) {
			return false
		}
		if slices.Contains(s.required, string(m.key)) {
			required++
		}
	}
	return required == len(s.required)
}

func scalar(p *jsonschema.Schema, value []byte) bool {
	switch c := value[0]; p.Type {
	case "string":
		return c == '"'
	case "boolean":
		return c == 't' || c == 'f'
	case "integer", "number":
		n, err := strconv.ParseFloat(string(value), 64)
		return err == nil && (p.Type == "number" || !slices.Contains(value, '.')) &&
			(p.Minimum == nil || n >= *p.Minimum) && (p.Maximum == nil || n <= *p.Maximum)
	}
	return false
}
