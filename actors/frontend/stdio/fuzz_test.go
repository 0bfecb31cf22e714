package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode/utf8"
)

// FuzzStdioJSON (stdio_json): whatever a client sends, lines are told apart,
// each is a request or refused by a code that is in the table, and what is taken
// for JSON is JSON.
func FuzzStdioJSON(f *testing.F) {
	for _, op := range operations() {
		f.Add([]byte(`{"type":"` + op.name + `","request_id":"1","payload":{}}`))
	}
	for _, seed := range []string{
		`{"type":"agent.execute","request_id":"1","payload":{"command":"npm install","env":{"A":"b"},"timeout_seconds":1e3}}`,
		`{"type":"session.start","request_id":"1","payload":{"working_directories":[{"path":"/a","access":"read_only"}],"gitignore":true}}`,
		`{"type":"undo.rollback","request_id":"1","payload":{"count":-9223372036854775808,"directory":0}}`,
		`{"type":"x","type":"y","request_id":"\u0061"}`, "{\"type\":\"\xff\"}", "[[[[[[[[[[", "\r\n\n{}\n", `{"a":01}`, `"\ud800"`, "",
	} {
		f.Add([]byte(seed))
	}
	known := map[Code]bool{}
	for _, c := range Codes() {
		known[c.Code] = true
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		lines := newLineReader(bytes.NewReader(input))
		for {
			line, err := lines.next()
			if errors.Is(err, errLineTooLong) {
				findRequestID(line)
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			}
			findRequestID(line)
			if blank(line) {
				continue
			}
			bad := checkText(line)
			if bad == nil && (!json.Valid(line) || !utf8.Valid(line)) {
				t.Fatalf("taken for JSON: %q", line)
			}
			if e := parseLine(string(line)); e != nil && (!known[e.Code] || e.Message == "" || !json.Valid(refusal(nil, toError(e)))) {
				t.Fatalf("%+v", e)
			}
		}
	})
}
