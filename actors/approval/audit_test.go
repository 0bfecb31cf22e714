package approval

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

func newTest(t *testing.T) (*auditActor, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), AuditFile)
	a := NewAudit(AuditOptions{Path: path, Session: "s1", Opening: func() AuditSession { return AuditSession{Isolation: "jail"} }, Node: supervision.NewTree().Node("audit")})
	t.Cleanup(func() {
		if a.log != nil {
			_ = a.log.Close()
		}
	})
	return a, path
}

func linesOf(t *testing.T, path string) (lines []string) {
	t.Helper()
	r, err := ChainFile(path, "", func(l ChainLine) error { lines = append(lines, string(l.Raw)); return nil })
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return lines
}

// A workload that connects everywhere fills no disk: each of a rule's decisions is
// recorded once, and so many at most. What people decide is recorded always.
func TestRulesAreRecordedOnce(t *testing.T) {
	a, path := newTest(t)
	decide := func(n int, by string) {
		t.Helper()
		d := messages.Decision{Kind: messages.KindNetwork, Message: fmt.Sprint("tcp ", n), Decision: "deny", By: by, Rule: "not listed"}
		if err := a.record(d); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		decide(1, messages.ByRule)
		decide(1, "somebody")
	}
	if got := linesOf(t, path); len(got) != 5 || !strings.Contains(got[0], `"kind":"session"`) || !strings.Contains(got[0], `"isolation":"jail"`) {
		t.Fatalf("%q", got)
	}
	for n := range mostRules + 10 {
		decide(n, messages.ByRule)
	}
	decide(0, "somebody")
	got := linesOf(t, path)
	if len(got) != 1+3+mostRules+1 {
		t.Fatalf("%d lines", len(got))
	}
	if last := got[len(got)-2]; !strings.Contains(last, "the last of") {
		t.Errorf("the bound is not said: %s", last)
	}
}

// A session in which nothing is decided writes nothing.
func TestNothingDecided(t *testing.T) {
	_, path := newTest(t)
	if got := linesOf(t, path); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
