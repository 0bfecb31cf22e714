package actors

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// waiters polls, under the lock, until n wait in line.
func (l *line) waiters() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// Turns come in order, a write takes part in a command's step, and who gives up
// or finds the line full is not served.
func TestLine(t *testing.T) {
	l, ctx := &line{}, t.Context()
	first, err := l.enter(ctx, turn{kind: turnCommand}, refuse)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.enter(ctx, turn{kind: turnCommand}, refuse); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("a second command: %v", err)
	}
	got := make(chan *turn, 3)
	enter := func(kind turnKind) {
		n := l.waiters()
		go func() {
			turn, err := l.enter(ctx, turn{kind: kind}, queue)
			if err != nil {
				t.Error(err)
			}
			got <- turn
		}()
		actortest.Eventually(t, "in line", func() bool { return l.waiters() > n })
	}
	enter(turnCommand)
	enter(turnWrite) // the step is not open yet
	l.admit(first, 1)
	write := actortest.Within(t, "the write", got)
	if write.into != first {
		t.Error("the write is not part of the step")
	}
	quick, err := l.enter(ctx, turn{kind: turnWrite}, queue)
	if err != nil || quick.into != first {
		t.Errorf("%+v, %v", quick, err)
	}
	settled := make(chan struct{})
	go func() { l.settle(first); close(settled) }()
	actortest.Eventually(t, "settling", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return !first.open })
	enter(turnWrite) // too late for the step: behind the second command
	l.leave(write)
	select {
	case <-settled:
		t.Error("settled while somebody writes")
	default:
	}
	l.leave(quick)
	actortest.Within(t, "settled", settled)
	l.leave(first)
	second := actortest.Within(t, "the second command", got)
	l.leave(second)
	third := actortest.Within(t, "the last write", got)
	if second.kind != turnCommand || third.into != nil {
		t.Errorf("order: %+v %+v", second, third)
	}
	for range maxWaiting {
		go func() { _, _ = l.enter(ctx, turn{kind: turnApply}, queue) }()
	}
	actortest.Eventually(t, "full", func() bool { return l.waiters() == maxWaiting })
	if _, err := l.enter(ctx, turn{kind: turnWrite}, queue); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("a full line: %v", err)
	}
	drain(l, third)
}

// drain lets all turns pass.
func drain(l *line, t *turn) {
	for t != nil {
		l.leave(t)
		l.mu.Lock()
		t = l.holder
		l.mu.Unlock()
	}
}

// Who gives up loses its place and nobody else's turn.
func TestLineCancel(t *testing.T) {
	l := &line{}
	for range 200 {
		holder, err := l.enter(t.Context(), turn{kind: turnApply}, queue)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if turn, err := l.enter(ctx, turn{kind: turnApply}, queue); err == nil {
				l.leave(turn)
			}
		})
		wg.Go(cancel)
		wg.Go(func() { l.leave(holder) })
		wg.Wait()
		if l.holder != nil || len(l.waiting) > 0 {
			t.Fatal("a turn is left over")
		}
	}
}
