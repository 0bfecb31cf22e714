package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/frontend"
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
		lines := frontend.NewLines(bytes.NewReader(input), MaxLine)
		for {
			line, err := lines.Next()
			if errors.Is(err, frontend.ErrLineTooLong) {
				skipped(lines.Skip("request_id"))
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			}
			if frontend.Blank(line) {
				continue
			}
			bad := frontend.CheckJSON(line)
			if bad == nil && (!json.Valid(line) || !utf8.Valid(line)) {
				t.Fatalf("taken for JSON: %q", line)
			}
			if e := parseLine(string(line)); e != nil && (!known[e.Code] || e.Message == "" || !json.Valid(refusal(nil, toError(e)))) {
				t.Fatalf("%+v", e)
			}
		}
	})
}
