package actors

import (
	"context"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// maxWaiting is how many wait in line at most.
const maxWaiting = 64

// turnKind says what a turn is for.
type turnKind uint8

const (
	turnCommand turnKind = iota // a command's step; files may be written in it
	turnWrite                   // a step of one API call
	turnApply                   // an undo, redo, restore or the like
)

// line lets what opens, or must not meet, a step go one at a time, first come
// first served. A write does not wait for the end of a command: it takes part in
// the command's step. The zero value is an empty line.
type line struct {
	mu      sync.Mutex
	holder  *turn
	waiting []*turn
}

// patience says what a turn does while another's lasts.
type patience uint8

const (
	refuse patience = iota // not to wait for a command: ErrBusy
	queue                  // to wait
	hurry                  // to wait before all others
)

// turn is somebody's place in the line, or at its head.
type turn struct {
	kind turnKind
	// cancel ends a command early; oust, if set, makes that happen to the one
	// whose turn it is while this one waits.
	cancel context.CancelCauseFunc
	oust   error

	ready chan struct{} // closed when the turn has come, or has been joined to
	into  *turn         // the command's that a write takes part in

	step    undolog.StepID // of a command
	open    bool           // the step takes writes
	members int
	left    chan struct{} // closed when the last member has left, once not open
}

// enter waits for a turn, which ends with leave. A full line is ErrBusy, too.
func (l *line) enter(ctx context.Context, want turn, p patience) (*turn, error) {
	t := &want
	t.ready, t.left = make(chan struct{}), make(chan struct{})
	kind := t.kind
	l.mu.Lock()
	switch {
	case l.holder == nil:
		l.holder = t
	case kind == turnWrite && l.holder.open:
		l.join(t)
	case p == refuse && l.command(kind == turnCommand), len(l.waiting) >= maxWaiting:
		l.mu.Unlock()
		return nil, messages.ErrBusy
	default:
		at := len(l.waiting)
		if p == hurry {
			at = 0
		}
		l.waiting = slices.Insert(l.waiting, at, t)
		cancel := l.holder.cancel
		l.mu.Unlock()
		if t.oust != nil && cancel != nil {
			cancel(t.oust)
		}
		return l.wait(ctx, t)
	}
	l.mu.Unlock()
	return t, nil
}

// command tells whether a command runs, or waits.
func (l *line) command(waits bool) bool {
	return l.holder.kind == turnCommand ||
		waits && slices.ContainsFunc(l.waiting, func(t *turn) bool { return t.kind == turnCommand })
}

func (l *line) wait(ctx context.Context, t *turn) (*turn, error) {
	select {
	case <-t.ready:
		return t, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, t)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // it came at the same moment
		l.leave(t)
	}
	return nil, context.Cause(ctx)
}

// join makes t part of the holder's step.
func (l *line) join(t *turn) {
	t.into = l.holder
	l.holder.members++
}

// admit lets writes take part in the step of t, which has its turn.
func (l *line) admit(t *turn, step undolog.StepID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.step, t.open = step, true
	l.waiting = slices.DeleteFunc(l.waiting, func(w *turn) bool {
		if w.kind != turnWrite {
			return false
		}
		l.join(w)
		close(w.ready)
		return true
	})
}

// settle lets nothing more take part in the step of t and waits for what does.
func (l *line) settle(t *turn) {
	l.mu.Lock()
	t.open = false
	n := t.members
	l.mu.Unlock()
	if n > 0 {
		<-t.left
	}
}

// leave ends a turn.
func (l *line) leave(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := t.into; c != nil {
		if c.members--; c.members == 0 && !c.open {
			close(c.left)
		}
		return
	}
	l.holder = nil
	if len(l.waiting) > 0 {
		l.holder, l.waiting = l.waiting[0], l.waiting[1:]
		close(l.holder.ready)
	}
}
