package interceptor

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// While somebody inside can write to a file without asking ([fsbridge.Granter]), a step
// is open at all times, so that what he writes belongs to one: when a step has ended, the next
// one is opened at once, ambient if no other is assigned, and all such files are
// captured in it. Whoever is about to start a command waits for that.

// standing is what the actor knows of it.
type standing struct {
	capturing bool          // Recapture is under way: no step may end meanwhile
	err       error         // why no step could be opened; it is not tried again before the next job
	waiting   []func(error) // until a step is open and its files are captured, or need not be
}

// recaptured is the result of Recapture.
type recaptured struct {
	a     *Actor
	files int
	err   error
}

// noteGranted asks the bridge who can write without asking, and tells the log.
func (h *Hooks) noteGranted() {
	g, ok := h.theBridge().(fsbridge.Granter)
	if !ok {
		if h.granted.Swap(0) != 0 { // the bridge is gone, and all who came by it
			h.o.Log.Written(nil)
		}
		return
	}
	ids := g.Granted()
	h.o.Log.Written(ids)
	h.granted.Store(int64(len(ids)))
}

// Granted returns how many files were found, when a step last ended, to which somebody
// inside can write without asking.
func (h *Hooks) Granted() int { return int(h.granted.Load()) }

// stand opens a step if one must be open, and answers whoever waits for it.
func (a *Actor) stand() {
	s := &a.standing
	if !a.recovered || a.beginning != nil || s.capturing || a.jobs.exclusive() {
		return
	}
	if a.open == 0 && s.err == nil && a.h.Granted() > 0 && a.h.gate.Load() == gateIdle {
		if len(a.jobs.queue) == 0 && a.jobs.running == nil {
			a.openFor(&request{op: fsbridge.OpWrite})
		}
		return
	}
	waiting := s.waiting
	s.waiting = nil
	for _, f := range waiting {
		f(s.err)
	}
}

// recapture has the files captured that can be written to without asking.
func (a *Actor) recapture() {
	g, ok := a.h.theBridge().(fsbridge.Granter)
	if !ok || a.h.Granted() == 0 {
		return
	}
	a.standing.capturing = true
	go func() {
		files, err := g.Recapture(context.Background())
		a.tell(&recaptured{a, files, err})
	}()
}

func (a *Actor) onRecaptured(m *recaptured) {
	if m.a != a {
		return
	}
	a.standing.capturing = false
	switch {
	case m.err == nil, errors.Is(m.err, fsbridge.ErrDenied): // a rollback puts back what there was
	default:
		a.log.Error("open files not captured", "files", m.files, "err", m.err)
		if f := a.h.o.Events.Failed; f != nil {
			f(fmt.Sprintf("files in %s that programs inside keep open for writing could not all be kept: %v", a.h.o.Directory, m.err))
		}
	}
	if m.files == 0 {
		a.h.granted.Store(0)
	}
}

// inside is what goes on in the folder now.
func (h *Hooks) inside() undolog.Inside {
	in := undolog.Inside{Last: h.changes.Load(), Newest: h.changes.Load}
	if g, ok := h.theBridge().(fsbridge.Granter); ok {
		in.Writing = g.Granted()
	}
	in.Idle = h.guard.Idle()
	return in
}
