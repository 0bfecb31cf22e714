package interceptor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// faulty is a real log that panics or fails when it is told to.
type faulty struct {
	Log
	capture atomic.Bool // the next capture panics
	begin   atomic.Bool // so does every Begin
	undo    atomic.Bool
	broken  atomic.Bool // Recover fails
}

func (f *faulty) Capture(epoch uint64, op *fsbridge.Op) (bool, error) {
	if f.capture.Swap(false) {
		panic("injected: capture")
	}
	return f.Log.Capture(epoch, op)
}

func (f *faulty) Begin(id undolog.StepID, info undolog.StepInfo) error {
	if f.begin.Load() {
		panic("injected: begin")
	}
	return f.Log.Begin(id, info)
}

func (f *faulty) Undo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error) {
	if f.undo.Swap(false) {
		panic("injected: undo")
	}
	return f.Log.Undo(ctx, o)
}

func (f *faulty) Recover(ctx context.Context) (*undolog.Recovery, error) {
	if f.broken.Load() {
		return nil, errors.New("injected: the journal is gone")
	}
	return f.Log.Recover(ctx)
}

func newFaulty(t *testing.T, names map[string]string) (*rig, *faulty) {
	f := &faulty{}
	r := newRig(t, names, func(o *Options) { f.Log, o.Log = o.Log, f })
	return r, f
}

func (r *rig) ready() error {
	_, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Ready{p} })
	return err
}

// An Interceptor that panics in the middle of a step costs that step, one EIO,
// and nothing else: the step is rolled back and reported, the session goes on.
func TestCrashInCapture(t *testing.T) {
	r, f := newFaulty(t, files(4))
	before := r.snap()
	r.assign(1)
	r.must(r.fs.Unlink("f0"))
	r.must(r.fs.WriteFile("new", []byte("x")))
	f.capture.Store(true)
	if err := r.fs.Unlink("f1"); !errors.Is(err, fsbridge.ErrFailed) {
		t.Errorf("the operation that crashed: %v", err)
	}
	rec := actortest.Expect[*undolog.Recovery](r.events)
	if rec.StepID != 1 || rec.Restored == 0 {
		t.Errorf("recovery: %+v", rec)
	}
	fail := actortest.Expect[*messages.StepFail](r.owner)
	if fail.Step != 1 || fail.Outcome != messages.OutcomeFailed {
		t.Errorf("reported: %+v", fail)
	}
	r.same(before)
	r.fs.Forget()
	if err := r.fs.Unlink("f1"); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("the failed step takes mutations: %v", err)
	}
	r.must(r.abort(1))
	r.assign(2)
	r.must(r.fs.Unlink("f2"))
	if e, err := r.closeStep(2); err != nil || e == nil {
		t.Fatalf("the next step: %+v, %v", e, err)
	}
	r.must(r.undo())
	r.same(before)
	if r.node.Restarts() != 1 {
		t.Errorf("%d restarts", r.node.Restarts())
	}
}

// A panic of the actor itself fails the waiting operation at once, not at its
// deadline. After too many the folder is read-only and says so.
func TestCrashUntilGivenUp(t *testing.T) {
	r, f := newFaulty(t, files(1))
	f.begin.Store(true)
	for i := range 3 {
		if err := r.fs.Unlink("f0"); !errors.Is(err, fsbridge.ErrFailed) {
			t.Errorf("crash %d: %v", i, err)
		}
		if i == 2 {
			break
		}
		if i == 1 { // the second restart is delayed
			r.clock.WaitArmed(time.Second)
			r.clock.Advance(time.Second)
		}
		actortest.Eventually(t, "restarted and recovered", func() bool {
			s, _ := r.hooks.State()
			return s == "ok" && r.node.Restarts() == i+1
		})
	}
	actortest.Eventually(t, "given up", func() bool { s, _ := r.hooks.State(); return s == "read_only" })
	if err := r.fs.Unlink("f0"); !errors.Is(err, fsbridge.ErrReadOnly) {
		t.Errorf("a mutation without a log: %v", err)
	}
	if !r.exists("f0") {
		t.Error("unprotected write")
	}
	if msg := actortest.Expect[string](r.events); !strings.Contains(msg, "read-only") {
		t.Errorf("event: %s", msg)
	}
}

// A log that cannot recover leaves the folder read-only, never unprotected.
func TestRecoveryFails(t *testing.T) {
	r, f := newFaulty(t, files(2))
	r.must(r.fs.Unlink("f0"))
	f.broken.Store(true)
	f.capture.Store(true)
	if err := r.fs.Unlink("f1"); !errors.Is(err, fsbridge.ErrFailed) {
		t.Errorf("got %v", err)
	}
	actortest.Eventually(t, "read-only", func() bool { s, _ := r.hooks.State(); return s == "read_only" })
	if err := r.ready(); !errors.Is(err, messages.ErrReadOnlyDirectory) {
		t.Errorf("ready: %v", err)
	}
	if err := r.fs.WriteFile("x", nil); !errors.Is(err, fsbridge.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	if err := r.undo(); !errors.Is(err, messages.ErrReadOnlyDirectory) {
		t.Errorf("undo: %v", err)
	}
	_, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Assign{ID: 1, Reply: p} })
	r.must(err) // other folders' commands are not stopped by this
}

// A crash answers everything that was held, and withdraws the question.
func TestCrashWhileHeld(t *testing.T) {
	f := &faulty{}
	r := newRig(t, files(2), func(o *Options) { f.Log, o.Log = o.Log, f; o.Safeguards.DeleteThreshold = 1 })
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	other := r.start(func() error { return r.fs.WriteFile("x", nil) })
	r.held(2)
	r.hooks.crash("injected")
	for _, ch := range []chan error{del, other} {
		if err := actortest.Within(t, "held operation", ch); !errors.Is(err, fsbridge.ErrFailed) {
			t.Errorf("got %v", err)
		}
	}
	if w := actortest.Expect[*messages.Withdraw](r.safeguard); w.Token != q.Token {
		t.Errorf("withdrawn: %+v", w)
	}
	r.must(r.ready()) // it recovers: the log must not be closed before
}

// A panic in the middle of an undo is answered, recovered, and the undo can be
// asked for again.
func TestCrashInUndo(t *testing.T) {
	r, f := newFaulty(t, files(1))
	before := r.snap()
	r.must(r.fs.Unlink("f0"))
	r.flush()
	f.undo.Store(true)
	if err := r.undo(); !errors.Is(err, messages.ErrCrashed) {
		t.Errorf("got %v", err)
	}
	r.must(r.ready())
	r.must(r.undo())
	r.same(before)
}

// The reply's deadline measures that the actor lives: an operation whose
// question nobody takes fails with EIO instead of hanging.
func TestLivenessDeadline(t *testing.T) {
	r := newRig(t, files(1), nil)
	r.hooks.SetTell(func(any) {}) // a mailbox that nobody reads
	del := r.start(func() error { return r.fs.Unlink("f0") })
	r.clock.WaitArmed(5 * time.Second)
	r.clock.Advance(5 * time.Second)
	if err := actortest.Within(t, "answer", del); !errors.Is(err, fsbridge.ErrFailed) {
		t.Errorf("got %v", err)
	}
	r.hooks.SetTell(r.tell)
	r.must(r.fs.Unlink("f0"))
}
