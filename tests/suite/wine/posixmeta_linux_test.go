package wine_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/suite/posixmeta"
)

// TestPosixMetadata has a machine's commands do on drive C: what the suite of POSIX metadata does on Linux, in one session. After each case its
// steps are undone.
func TestPosixMetadata(t *testing.T) {
	require.Root(t)
	if os.Getenv(everything) != "all" {
		t.Logf("%s=all has it done", everything)
		return
	}
	w := newWindows(t)
	for name, content := range posixmeta.Files {
		w.text(`C:\project\`+strings.ReplaceAll(name, "/", `\`), content)
	}
	s := w.serve()
	for _, c := range posixmeta.Cases {
		t.Run(c.Name, func(t *testing.T) {
			c.Test(&posixmeta.Folder{
				T: t, Host: w.host(`C:\project`), Run: s.run, Superuser: true,
				Undo: func() { s.c.Must("undo.rollback", nil, nil) },
				Redo: func() { s.c.Must("undo.redo", nil, nil) },
			})
			for range s.steps() {
				s.c.Must("undo.rollback", map[string]any{"force": true}, nil)
			}
		})
	}
}

// run runs a command in the session, with what it wrote to stdout.
func (s *served) run(script string) (stdout string, code int) {
	s.t.Helper()
	m := s.c.Response(s.c.Send("agent.execute", map[string]any{"command": "set -e; " + script}))
	var result struct {
		Code int `json:"exit_code"`
	}
	if m.OK() {
		m.Into(s.t, &result)
	} else if m.Error == nil || json.Unmarshal(m.Error.Data, &result) != nil || result.Code == 0 {
		s.t.Fatalf("%s: %s", script, m.Line)
	}
	return s.output(), result.Code
}

// steps is how many there are that can be undone.
func (s *served) steps() int {
	s.t.Helper()
	var history struct{ Steps []json.RawMessage }
	s.c.Must("undo.history", nil, &history)
	return len(history.Steps)
}
