package actors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// What the end of a session decides is in the audit log, as every decision is.
func TestShutdownIsAudited(t *testing.T) {
	for range 20 {
		l := newLab(t, 1, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = l.s.Run(t.Context(), api.RunRequest{Argv: []string{"cmd"}, Question: "May it?"})
		}()
		e := l.event(api.EventSafeguardTriggered)
		if err := l.s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		actortest.Within(t, "run", done)
		b, err := os.ReadFile(filepath.Join(l.dirs[0]+".undo", "decisions.jsonl"))
		if err != nil || !strings.Contains(string(b), e.Pending.ID) || !strings.Contains(string(b), messages.ByShutdown) {
			t.Fatalf("audit: %q, %v", b, err)
		}
	}
}
