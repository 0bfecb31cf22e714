package interceptor

import (
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// UI-20: a write outside any command belongs to an ambient step, and can be
// undone.
func TestUI20AmbientStep(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old"}, nil)
	before := r.snap()
	r.must(r.fs.WriteFile("f", []byte("new content")))
	r.must(r.fs.WriteFile("g", []byte("g")))
	r.must(r.undo()) // closes the ambient step first: it is the newest
	r.same(before)
	if len(r.history()) != 0 {
		t.Errorf("history is not empty: %+v", r.history())
	}
}

// UI-21: an ambient step closes after 5 s without a write, not before, and the
// next write opens another.
func TestUI21AmbientTimeout(t *testing.T) {
	r := newRig(t, nil, nil)
	r.must(r.fs.WriteFile("a", []byte("1")))
	r.clock.Advance(4 * time.Second)
	r.must(r.fs.WriteFile("b", []byte("2"))) // keeps it open
	r.clock.Advance(4 * time.Second)
	r.clock.WaitArmed(time.Second)
	if len(r.history()) != 0 {
		t.Fatal("closed while it was written to")
	}
	r.clock.Advance(time.Second)
	e := actortest.Expect[*undolog.Entry](r.events)
	if e.StepID != -1 || e.Type != undolog.TypeAmbient || e.AffectedCount < 2 {
		t.Errorf("ambient step: %+v", e)
	}
	r.must(r.fs.WriteFile("c", []byte("3")))
	r.flush()
	h := r.history()
	if len(h) != 2 || h[0].StepID != -2 || h[0].Command != "" || h[0].ExitCode != nil {
		t.Errorf("history: %+v", h)
	}
}

// CC-12: what is written after a command's step was closed goes to an ambient
// step; a command closes an ambient step first.
func TestCC12AmbientAfterClose(t *testing.T) {
	r := newRig(t, nil, nil)
	r.must(r.fs.WriteFile("a", []byte("1")))
	r.assign(7)
	r.must(r.fs.WriteFile("b", []byte("2")))
	if e, err := r.closeStep(7); err != nil || e == nil || e.StepID != 7 {
		t.Fatalf("close: %+v, %v", e, err)
	}
	r.must(r.fs.WriteFile("c", []byte("3")))
	r.flush()
	var ids []undolog.StepID
	for _, e := range r.history() {
		ids = append(ids, e.StepID)
	}
	if len(ids) != 3 || ids[0] != -2 || ids[1] != 7 || ids[2] != -1 {
		t.Errorf("steps, newest first: %v", ids)
	}
}

// A command that changes nothing leaves no step, and costs no open step.
func TestNothingChanged(t *testing.T) {
	r := newRig(t, map[string]string{"f": "x"}, nil)
	r.assign(3)
	if e, err := r.closeStep(3); e != nil || err != nil {
		t.Errorf("got %+v, %v", e, err)
	}
	if len(r.history()) != 0 {
		t.Error("an empty step is in the history")
	}
}

// The pages that a fence brings in belong to the step that it ends.
func TestFenceBelongsToTheStep(t *testing.T) {
	r := newRig(t, map[string]string{"f": "x"}, nil)
	r.bridge.fence = func() { r.must(r.fs.WriteAt("f", []byte("late"), 0)) }
	r.assign(1)
	e, err := r.closeStep(1)
	if err != nil || e == nil || e.StepID != 1 || e.AffectedCount == 0 {
		t.Fatalf("the late write is not in the step: %+v, %v", e, err)
	}
}

// Undo is refused while a command's step is assigned.
func TestUndoWhileBusy(t *testing.T) {
	r := newRig(t, nil, nil)
	r.assign(1)
	if err := r.undo(); err != messages.ErrBusy {
		t.Errorf("got %v", err)
	}
}

// What an undo and a rollback change is ours: the watcher asks when that was, and
// would announce it as somebody else's edit.
func TestUndoIsOurs(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old"}, nil)
	check := func(what string) {
		t.Helper()
		if at := r.hooks.LastMutation(); !at.Equal(r.clock.Now()) {
			t.Errorf("%s: the last change was at %v, and it is %v", what, at, r.clock.Now())
		}
	}
	r.assign(1)
	r.must(r.fs.WriteFile("f", []byte("new")))
	if _, err := r.closeStep(1); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Minute)
	r.must(r.undo())
	check("undo")
	r.fs.Forget()
	r.assign(2)
	r.must(r.fs.WriteFile("f", []byte("new")))
	r.clock.Advance(time.Minute)
	r.must(r.abort(2))
	check("rollback")
}
