package step

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// waiters is how many wait.
func (r *rig) waiters() int {
	n, _ := strconv.Atoi(r.tree.Snapshot("steps", time.Now()).Facts["queue"]) // none: 0
	return n
}

// queue asks for a lease, which comes later.
func (r *rig) queue(o Open) <-chan *Lease {
	r.t.Helper()
	n, got := r.waiters(), make(chan *Lease, 1)
	go func() {
		l, err := r.steps.Lease(r.t.Context(), o)
		if err != nil {
			r.t.Error(err)
		}
		got <- l
	}()
	actortest.Eventually(r.t, "in the queue", func() bool { return r.waiters() > n })
	return got
}

// Leases are given in order, a write takes part in a command's step, and who gives
// up or finds the queue full is not served.
func TestQueue(t *testing.T) {
	r := newRig(t, 1)
	first, err := r.lend(Open{Later: true})
	if err != nil || first.Step != 0 {
		t.Fatal(first, err)
	}
	if _, err := r.lend(Open{}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("a second command: %v", err)
	}
	next := r.queue(Open{Kind: Apply, Wait: Queue})
	early := r.queue(Open{Kind: Write, Wait: Queue}) // the step is not open yet
	id, err := r.steps.Begin(first)
	if err != nil || id != first.Step || id == 0 {
		t.Fatalf("%d, %v", id, err)
	}
	write := actortest.Within(t, "the write", early)
	if !write.Joined || write.Step != id {
		t.Error("the write is not part of the step")
	}
	quick, err := r.lend(Open{Kind: Write, Wait: Queue})
	if err != nil || !quick.Joined {
		t.Errorf("%+v, %v", quick, err)
	}
	finished := r.finish(id, nil)
	r.phase(settling)
	late := r.queue(Open{Kind: Write, Wait: Queue}) // too late for the step: behind the undo
	r.steps.Leave(write)
	r.steps.Leave(write) // it counts once
	if _, err := r.lend(Open{}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("while it settles: %v", err)
	}
	select {
	case <-finished:
		t.Error("finished while somebody writes")
	default:
	}
	r.steps.Leave(quick)
	if f := actortest.Within(t, "finish", finished); f.Err != nil {
		t.Error(f.Err)
	}
	r.steps.Leave(first)
	second := actortest.Within(t, "the undo", next)
	select {
	case <-late:
		t.Error("the write did not wait for the undo")
	default:
	}
	r.steps.Leave(second)
	third := actortest.Within(t, "the last write", late)
	if second.Step != 0 || third.Joined || third.Step <= id {
		t.Errorf("order: %+v %+v", second, third)
	}
	var wg sync.WaitGroup
	for range MaxQueue {
		wg.Go(func() {
			if l, err := r.steps.Lease(t.Context(), Open{Kind: Apply, Wait: Queue}); err == nil {
				r.steps.Leave(l)
			} else {
				t.Error(err)
			}
		})
	}
	actortest.Eventually(t, "full", func() bool { return r.waiters() == MaxQueue })
	if _, err := r.lend(Open{Kind: Write, Wait: Queue}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("a full queue: %v", err)
	}
	if f := actortest.Within(t, "finish", r.finishes(third, nil)); f.Err != nil {
		t.Error(f.Err)
	}
	r.steps.Leave(third)
	wg.Wait()
}

// Who gives up loses its place and nobody else's turn.
func TestQueueCancel(t *testing.T) {
	r := newRig(t, 1)
	for range 200 {
		holder, err := r.lend(Open{Kind: Apply})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if l, err := r.steps.Lease(ctx, Open{Kind: Apply, Wait: Queue}); err == nil {
				r.steps.Leave(l)
			}
		})
		wg.Go(cancel)
		wg.Go(func() { r.steps.Leave(holder) })
		wg.Wait()
	}
	if l, err := r.lend(Open{Kind: Apply}); err != nil {
		t.Fatalf("a lease is left over: %+v, %v", l, err)
	}
}

// Who is in a hurry comes before all who wait, and ends who has the lease.
func TestPreempt(t *testing.T) {
	r := newRig(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	command, err := r.lend(Open{Cancel: cancel})
	if err != nil {
		t.Fatal(err)
	}
	patient := r.queue(Open{Kind: Apply, Wait: Queue})
	reset := r.queue(Open{Kind: Apply, Wait: First, Preempt: messages.ErrReset})
	actortest.Within(t, "the cancellation", ctx.Done())
	if !errors.Is(context.Cause(ctx), messages.ErrReset) {
		t.Errorf("cause: %v", context.Cause(ctx))
	}
	if f := actortest.Within(t, "finish", r.finish(command.Step, nil)); f.Err != nil {
		t.Error(f.Err)
	}
	r.steps.Leave(command)
	r.steps.Leave(actortest.Within(t, "the reset", reset))
	r.steps.Leave(actortest.Within(t, "the patient", patient))
}

// When the steps actor crashes, nobody waits for ever: who waits is told, the open
// step is rolled back, and the next lease is given when who had the last has left,
// with all who took part in the step.
func TestRestartWhileSomebodyWaits(t *testing.T) {
	r := newRig(t, 1)
	cancelled := make(chan struct{})
	command, err := r.lend(Open{})
	if err != nil {
		t.Fatal(err)
	}
	r.tell(&Attach{Lease: command, Cancel: func() { close(cancelled) }})
	write, err := r.lend(Open{Kind: Write, Wait: Queue})
	if err != nil || !write.Joined {
		t.Fatal(write, err)
	}
	failed := make(chan error, 3)
	for i, o := range []Open{{Wait: Queue}, {Kind: Apply, Wait: Queue}, {Kind: Apply, Wait: First}} {
		go func() { _, err := r.steps.Lease(t.Context(), o); failed <- err }()
		actortest.Eventually(t, "in the queue", func() bool { return r.waiters() == i+1 })
	}
	r.tell((*Finish)(nil)) // it panics
	for range 3 {
		if err := actortest.Within(t, "an answer", failed); !errors.Is(err, messages.ErrCrashed) {
			t.Errorf("%v", err)
		}
	}
	actortest.Within(t, "the command's end", cancelled)
	r.dirs[0].expect("abort", command.Step)
	if f := actortest.Within(t, "finish", r.finish(command.Step, nil)); f.Err == nil {
		t.Error("the step was finished")
	}
	if _, err := r.lend(Open{}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("while the command ends: %v", err)
	}
	next := r.queue(Open{Wait: Queue})
	r.steps.Leave(command)
	if late, err := r.lend(Open{Kind: Write}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("joined a step that was rolled back: %+v, %v", late, err)
	}
	r.steps.Leave(write)
	l := actortest.Within(t, "the next command", next)
	if l.Step <= command.Step {
		t.Errorf("step %d after %d", l.Step, command.Step)
	}
}

// A crash while a step is being opened is told to who asked for it, and its lease is
// nobody's.
func TestRestartWhileStepOpens(t *testing.T) {
	r := newRig(t, 1)
	r.dirs[0].silent.Store(true)
	failed := make(chan error, 1)
	go func() { _, err := r.steps.Lease(t.Context(), Open{}); failed <- err }()
	r.dirs[0].expect("assign", 1)
	r.tell((*Finish)(nil))
	if err := actortest.Within(t, "an answer", failed); !errors.Is(err, messages.ErrCrashed) {
		t.Errorf("%v", err)
	}
	r.dirs[0].silent.Store(false)
	if _, err := r.open(); err != nil {
		t.Error(err)
	}
}

// Who leaves while there is no actor to hear of it has left all the same.
func TestLeaveBetweenTwoLives(t *testing.T) {
	r := newRig(t, 1)
	l, err := r.lend(Open{})
	if err != nil {
		t.Fatal(err)
	}
	l.left.Store(true) // the message is lost
	r.tell((*Finish)(nil))
	if _, err := r.open(); err != nil {
		t.Error(err)
	}
}

// At the end of the last command, commands that wait are told so, and so are those
// that come later; an undo has its turn.
func TestLastCommand(t *testing.T) {
	r := newRig(t, 1)
	last, err := r.lend(Open{Last: true})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := r.steps.Lease(t.Context(), Open{Wait: Queue})
		waits <- err
	}()
	actortest.Eventually(t, "in the queue", func() bool { return r.waiters() == 1 })
	undo := r.queue(Open{Kind: Apply, Wait: Queue})
	finished := r.finish(last.Step, nil)
	if err := r.drive(finished); err != nil {
		t.Fatal(err)
	}
	r.steps.Leave(last)
	if err := actortest.Within(t, "the command that waits", waits); !errors.Is(err, messages.ErrEnding) {
		t.Errorf("the command that waited: %v", err)
	}
	r.steps.Leave(actortest.Within(t, "the undo", undo))
	if _, err := r.lend(Open{Wait: Queue}); !errors.Is(err, messages.ErrEnding) {
		t.Errorf("a command afterwards: %v", err)
	}
}
