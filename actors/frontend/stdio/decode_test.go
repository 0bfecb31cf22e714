package stdio

import (
	"strings"
	"testing"
)

// What is not a request is refused by the right code, and the field that is
// wrong is named.
func TestBadLines(t *testing.T) {
	deep := strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40)
	many := strings.Repeat(`"x":1,`, 0)
	for i := range 1100 {
		many += `"f` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + `":1,`
	}
	for _, c := range []struct {
		name, line string
		code       Code
		field      string
	}{
		{"text", `hello`, InvalidJSON, ""},
		{"half", `{"type":"hello","request_id":"1"`, InvalidJSON, ""},
		{"two values", `{"type":"hello","request_id":"1"} {}`, InvalidJSON, ""},
		{"an array", `[]`, InvalidJSON, ""},
		{"broken UTF-8", "{\"type\":\"hello\",\"request_id\":\"\xff\"}", InvalidJSON, ""},
		{"deep", `{"type":"hello","request_id":"1","payload":{"x":` + deep + `}}`, InvalidJSON, ""},
		{"many fields", `{` + many + `"type":"hello"}`, InvalidJSON, ""},
		{"duplicate", `{"type":"hello","type":"hello","request_id":"1"}`, InvalidJSON, ""},
		{"duplicate by escape", `{"type":"hello","t\u0079pe":"hello","request_id":"1"}`, InvalidJSON, ""},
		{"duplicate inside", `{"type":"fs.read","request_id":"1","payload":{"path":"a","path":"b"}}`, InvalidJSON, ""},
		{"giant number", `{"type":"undo.rollback","request_id":"1","payload":{"count":` + strings.Repeat("9", 100) + `}}`, InvalidJSON, ""},
		{"large number", `{"type":"undo.rollback","request_id":"1","payload":{"count":99999999999999999999}}`, InvalidField, "count"},
		{"exponent", `{"type":"agent.execute","request_id":"1","payload":{"command":"x","timeout_seconds":1e999}}`, InvalidField, "timeout_seconds"},
		{"fraction", `{"type":"undo.rollback","request_id":"1","payload":{"count":1.5}}`, InvalidField, "count"},
		{"leading zero", `{"type":"undo.rollback","request_id":"1","payload":{"count":01}}`, InvalidJSON, ""},
		{"lone surrogate is text", `{"type":"nope\ud800","request_id":"1"}`, UnknownOperation, "type"},
		{"control character", "{\"type\":\"a\x01\",\"request_id\":\"1\"}", InvalidJSON, ""},
		{"no type", `{"request_id":"1"}`, MissingField, "type"},
		{"no id", `{"type":"hello"}`, MissingField, "request_id"},
		{"id is a number", `{"type":"hello","request_id":1}`, InvalidField, "request_id"},
		{"id is empty", `{"type":"hello","request_id":""}`, InvalidField, "request_id"},
		{"id is long", `{"type":"hello","request_id":"` + strings.Repeat("x", 257) + `"}`, InvalidField, "request_id"},
		{"payload is text", `{"type":"hello","request_id":"1","payload":"x"}`, InvalidField, "payload"},
		{"unknown operation", `{"type":"nope","request_id":"1"}`, UnknownOperation, "type"},
		{"unknown field outside", `{"type":"hello","request_id":"1","x":1}`, UnknownField, "x"},
		{"unknown field", `{"type":"fs.read","request_id":"1","payload":{"path":"a","file":1}}`, UnknownField, "file"},
		{"other case", `{"type":"fs.read","request_id":"1","payload":{"Path":"a"}}`, UnknownField, "Path"},
		{"nested", `{"type":"session.start","request_id":"1","payload":{"working_directories":[{"path":"/a"},{"label":"x"}]}}`, MissingField, "working_directories[1].path"},
		{"wrong type", `{"type":"fs.read","request_id":"1","payload":{"path":["a"]}}`, InvalidField, "path"},
		{"wrong type in a map", `{"type":"agent.execute","request_id":"1","payload":{"command":"x","env":{"A":1}}}`, InvalidField, "env.A"},
		{"null character", `{"type":"fs.read","request_id":"1","payload":{"path":"a\u0000b"}}`, InvalidField, "path"},
		{"null for required", `{"type":"fs.read","request_id":"1","payload":{"path":null}}`, MissingField, "path"},
		{"directory", `{"type":"fs.list","request_id":"1","payload":{"directory":{}}}`, InvalidField, "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := parseLine(c.line)
			if bad == nil || bad.Code != c.code || bad.Field != c.field {
				t.Fatalf("%+v, want %s for field %q", bad, c.code, c.field)
			}
			if bad.Message == "" {
				t.Error("no message")
			}
		})
	}
}

// parseLine does what the reader does with a line before it is carried out.
func parseLine(line string) *Error {
	e, bad := parseEnvelope([]byte(line))
	if bad != nil {
		return bad
	}
	for _, op := range operations() {
		if op.name == e.Type {
			return decode(e.Payload, op.payload())
		}
	}
	return &Error{Code: UnknownOperation, Field: "type", Message: "unknown"}
}

func TestDecode(t *testing.T) {
	var p ExecuteRequest
	bad := decode([]byte(`{"directory":1,"argv":["a","b\u00e9"],"env":{"K":"v"},"timeout_seconds":1.5,"wait":true,"cwd":null}`), &p)
	if bad != nil || p.Directory != "1" || p.Argv[1] != "bé" || p.Env["K"] != "v" || p.TimeoutSeconds != 1.5 || !p.Wait {
		t.Errorf("%+v, %v", p, bad)
	}
}
