package interceptor

import (
	"context"
	"errors"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// slow is a real log whose lifecycle calls can be made to wait.
type slow struct {
	Log
	begin, commit, recover, gc chan chan struct{} // if not nil: told of a call, which waits
}

func pass(gate chan chan struct{}) {
	if gate != nil {
		leave := make(chan struct{})
		gate <- leave
		<-leave
	}
}

func (s *slow) Begin(id undolog.StepID, info undolog.StepInfo) error {
	pass(s.begin)
	return s.Log.Begin(id, info)
}

func (s *slow) Commit(ctx context.Context, r undolog.StepResult) (*undolog.Entry, error) {
	pass(s.commit)
	return s.Log.Commit(ctx, r)
}

func (s *slow) Recover(ctx context.Context) (*undolog.Recovery, error) {
	pass(s.recover)
	return s.Log.Recover(ctx)
}

func (s *slow) GC(ctx context.Context, o undolog.GCOptions) (*undolog.GCResult, error) {
	pass(s.gc)
	return s.Log.GC(ctx, o)
}

func newSlow(t *testing.T, names map[string]string) (*rig, *slow) {
	s := &slow{}
	r := newRig(t, names, func(o *Options) { s.Log, o.Log = o.Log, s })
	return r, s
}

// The actor crashes while it closes a step: the step was closed, the answer says
// so, and the folder takes the next one.
func TestCrashWhileClosing(t *testing.T) {
	r, s := newSlow(t, files(2))
	r.assign(1)
	r.must(r.fs.Unlink("f0"))
	s.commit = make(chan chan struct{})
	closed := messages.NewReply[*undolog.Entry]()
	r.tell(&Close{ID: 1, Result: undolog.StepResult{Status: messages.OutcomeCompleted}, Reply: closed})
	leave := actortest.Within(t, "commit", s.commit)
	s.recover = make(chan chan struct{}, 1)
	r.hooks.crash("injected")
	actortest.Eventually(t, "restarted", func() bool { return r.node.Restarts() == 1 })
	close(leave)
	if res := actortest.Within(t, "close", closed.C()); res.Err != nil || res.Value == nil {
		t.Fatalf("%+v", res)
	}
	close(actortest.Within(t, "recovery", s.recover))
	r.must(r.ready())
	s.commit = nil
	r.owner.None()
	r.assign(2)
	r.must(r.fs.Unlink("f1"))
	if e, err := r.closeStep(2); err != nil || e == nil || e.StepID != 2 {
		t.Errorf("%+v, %v", e, err)
	}
}

// The actor crashes while it closes the ambient step before a command's: the
// command's mutations are in its step all the same, or it is told that there is
// none.
func TestCrashWhileAssigning(t *testing.T) {
	r, s := newSlow(t, files(2))
	r.must(r.fs.Unlink("f0"))
	s.commit = make(chan chan struct{})
	assigned := messages.NewReply[struct{}]()
	r.tell(&Assign{ID: 7, Info: undolog.StepInfo{Type: undolog.TypeCommand}, Reply: assigned})
	leave := actortest.Within(t, "commit", s.commit)
	r.hooks.crash("injected")
	actortest.Eventually(t, "restarted", func() bool { return r.node.Restarts() == 1 })
	close(leave)
	res := actortest.Within(t, "assign", assigned.C())
	r.must(r.ready())
	s.commit = nil
	if res.Err != nil {
		r.assign(7)
	}
	if err := r.fs.Unlink("f1"); err != nil {
		if !errors.Is(err, fsbridge.ErrDenied) {
			t.Fatal(err)
		}
		actortest.Expect[*messages.StepFail](r.owner)
		r.must(r.abort(7))
		return
	}
	if e, err := r.closeStep(7); err != nil || e == nil || e.StepID != 7 {
		t.Errorf("the command's step: %+v, %v", e, err)
	}
}

// A step that is assigned while the log recovers has nothing to do with what
// crashed.
func TestAssignWhileRecovering(t *testing.T) {
	r, s := newSlow(t, files(2))
	r.must(r.fs.Unlink("f0"))
	s.recover = make(chan chan struct{}, 1)
	r.hooks.crash("injected")
	leave := actortest.Within(t, "recovery", s.recover)
	assigned := messages.NewReply[struct{}]()
	r.tell(&Assign{ID: 1, Info: undolog.StepInfo{Type: undolog.TypeCommand}, Reply: assigned})
	close(leave)
	r.must(actortest.Within(t, "assign", assigned.C()).Err)
	r.must(r.ready())
	r.owner.None()
	r.fs.Forget()
	r.must(r.fs.Unlink("f1"))
	if e, err := r.closeStep(1); err != nil || e == nil || e.StepID != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A rollback in which the log panics is finished by the recovery, and the folder
// takes the next step: the one that failed has ended for everybody else.
func TestCrashWhileRollingBack(t *testing.T) {
	f := &abortPanics{}
	r := newRig(t, files(2), func(o *Options) { f.Log, o.Log = o.Log, f })
	before := r.snap()
	r.assign(1)
	r.must(r.fs.Unlink("f0"))
	if err := r.abort(1); !errors.Is(err, messages.ErrCrashed) {
		t.Fatalf("%v", err)
	}
	actortest.Eventually(t, "restarted", func() bool { return r.node.Restarts() == 1 })
	r.must(r.ready())
	r.same(before)
	r.fs.Forget()
	r.assign(2)
	r.must(r.fs.Unlink("f1"))
	if e, err := r.closeStep(2); err != nil || e == nil || e.StepID != 2 {
		t.Errorf("%+v, %v", e, err)
	}
}

// abortPanics is a real log whose first rollback panics.
type abortPanics struct {
	Log
	did bool
}

func (f *abortPanics) Abort(ctx context.Context) (*undolog.ApplyResult, error) {
	if !f.did {
		f.did = true
		panic("injected: abort")
	}
	return f.Log.Abort(ctx)
}
