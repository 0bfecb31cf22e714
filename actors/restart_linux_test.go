package actors

import (
	"errors"
	"testing"

	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// When the root of the session's actors crashes, the guest goes with it: the
// session has failed and says so, its history can be used, and a reset brings it
// back.
func TestRootRestarts(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	l.mustRun(func() error { return l.fs[0].Unlink("f0") })
	l.s.to("")((*session.Move)(nil)) // it panics
	state := func() string {
		st, err := l.s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.State
	}
	actortest.Eventually(t, "the session has failed", func() bool { return state() == string(session.Failed) })
	if _, err := l.run(func(*fakeProcess) int { return 0 }); !errors.Is(err, messages.ErrNoMachine) {
		t.Errorf("run: %v", err)
	}
	if _, err := l.undo(false); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	if err := l.s.Reset(t.Context()); err != nil || state() != string(session.Active) {
		t.Errorf("reset: %v, %s", err, state())
	}
	l.mustRun(func() error { return nil })
}
