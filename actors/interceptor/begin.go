package interceptor

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// errNoID: the log has no id for an ambient step.
var errNoID = errors.New("no step id: the undo directory cannot be written")

// begun says that the step is open in the log, or why it is not.
type begun struct {
	a     *Actor
	id    undolog.StepID
	err   error
	crash error
}

// begin opens the assigned step, or an ambient one, for the first mutation. That
// writes to the log, and waits for the end of what is under way, on a goroutine;
// until it is back every mutation waits, with the deadline that it has.
func (a *Actor) begin(r *request) {
	if !a.holds.Push(r, r.bytes) {
		r.reply.Fail(fmt.Errorf("%w: %d operations are held already", fsbridge.ErrNoSpace, a.holds.Len()))
		return
	}
	if a.beginning == nil {
		a.openFor(r)
	}
}

// openFor opens the step for r, which is held, or on behalf of nobody (see stand).
func (a *Actor) openFor(r *request) {
	a.beginning = r
	as := a.h.assigned.Load()
	go func() {
		a.h.life.Lock()
		defer a.h.life.Unlock()
		if a.gone.Load() { // or the successor would not know of the step
			return
		}
		m := &begun{a: a}
		m.crash = a.h.protect(func() { m.id, m.err = a.h.openStep(as) })
		a.tell(m)
	}()
}

// openStep opens the step in the log. Hooks.life is held.
func (h *Hooks) openStep(as *assignment) (id undolog.StepID, err error) {
	info := undolog.StepInfo{Type: undolog.TypeAmbient}
	if as != nil {
		id, info = as.id, as.info
	} else if id = h.o.Log.NextID(undolog.TypeAmbient); id == 0 {
		return 0, errNoID
	}
	h.guard.Drain(func() bool {
		if err = h.takeUp(); err == nil {
			err = h.o.Log.Begin(id, info)
		}
		return err == nil
	})
	return id, err
}

// takeUp ends looking: what was interrupted is taken up before the first change.
func (h *Hooks) takeUp() error {
	if !h.looks.Load() {
		return nil
	}
	rec, err := h.o.Log.Recover(context.Background())
	if err != nil {
		return err
	}
	h.looks.Store(false)
	if rec != nil && h.o.Events.Recovered != nil {
		h.o.Events.Recovered(rec)
	}
	return nil
}

func (a *Actor) onBegun(m *begun) {
	if m.a != a {
		return
	}
	r := a.beginning
	a.beginning = nil
	switch {
	case m.crash != nil:
		for _, r := range a.holds.TakeAll() { // the restart may be delayed
			r.reply.Fail(fsbridge.ErrFailed)
		}
		panic(fmt.Sprintf("open step: %v", m.crash))
	case m.err != nil:
		a.log.Error("cannot open a step", "err", m.err)
		a.standing.err = bridgeError(m.err)
		a.holds.Remove(r)
		r.reply.Fail(bridgeError(m.err))
	default:
		a.open = m.id
		a.deletes, a.sample = 0, nil
		a.h.mutated()
		if m.id < 0 {
			a.idle.Reset(a.h.o.AmbientIdle)
		}
		a.h.o.Node.SetFact("step", fmt.Sprint(m.id))
		a.reopen()
		a.recapture()
	}
	a.readmit()
}
