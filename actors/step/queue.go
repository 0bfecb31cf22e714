package step

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// MaxQueue is how many requests wait at most.
const MaxQueue = 64

// Kind says what a lease is for.
type Kind uint8

// The kinds of lease.
const (
	Command Kind = iota // a command's step; files may be written in it
	Write               // a step of one API call
	Apply               // an undo, redo, restore or the like, which opens no step
)

// Wait says what a request does while another's lease lasts.
type Wait uint8

// The ways to wait.
const (
	Refuse Wait = iota // not for a command: ErrBusy
	Queue              // first come, first served
	First              // before all others
)

// Open asks for a lease: what opens a step, or must not meet one, goes one at a
// time. A command or a write gets it with an open step. While a command's step is
// open a write does not wait for its end but takes part in it. It fails with
// ErrBusy if it does not wait or the queue is full.
type Open struct {
	Kind Kind
	Wait Wait
	// Preempt, if set, ends whoever has the lease while this request waits: it is
	// given to their Cancel, which is called on its own goroutine.
	Preempt error
	Cancel  context.CancelCauseFunc
	// Later opens no step yet; [Begin] does.
	Later bool
	// Last: commands that wait at the end of the lease, and all that come later, get
	// ErrEnding.
	Last  bool
	Info  undolog.StepInfo
	From  api.Origin
	Reply *messages.Reply[*Lease]
}

// Begin opens the step of a lease that was asked for with Later set.
type Begin struct {
	Lease *Lease
	Reply *messages.Reply[undolog.StepID]
}

// leave says that a lease has ended.
type leave struct{}

// withdraw takes a request back that waits.
type withdraw struct {
	open  *Open
	cause error
}

// Fail answers whoever waits.
func (m *Open) Fail(err error)  { m.Reply.Fail(err) }
func (m *Begin) Fail(err error) { m.Reply.Fail(err) }

// Lease is the right to work on the folders, until [Steps.Leave]. Its exported fields
// are set before it is given away.
type Lease struct {
	Step   undolog.StepID // 0: no step is open yet
	Joined bool           // the step is a command's, who ends it

	// left is set by who has left, before the actor is told: it may be between two
	// lives, and miss the message.
	left atomic.Bool

	// What follows is the actor's.
	open    *Open
	waited  bool     // in the queue
	granted bool     // somebody has it, and will leave
	takes   bool     // writes may join the step
	members []*Lease // of writes that have
}

// Holder is who has the lease. It outlives restarts of the actor: what a crash
// leaves behind must end before anybody else gets it. Its content is the actor's.
type Holder struct {
	lease *Lease
	over  bool // it takes no more commands
}

// Steps is how others ask the steps actor. It is safe for concurrent use.
type Steps struct{ messages.Ref }

// Lease sends the request and waits for the lease, which the caller must [Steps.Leave].
// While the request waits in the queue, the end of ctx takes it back. A step that
// is being opened is not cut short: nobody else would close it if it opened after
// all.
func (s Steps) Lease(ctx context.Context, o Open) (*Lease, error) {
	if s.Tell == nil {
		return nil, messages.ErrStopped
	}
	o.Reply = messages.NewReply[*Lease]()
	s.Tell(&o)
	select {
	case res := <-o.Reply.C():
		return res.Value, res.Err
	case <-ctx.Done():
		s.Tell(&withdraw{&o, context.Cause(ctx)})
	case <-s.Stopped:
	}
	l, err := o.Reply.Wait(context.Background(), s.Stopped)
	if err == nil && l.waited && (l.Step == 0 || l.Joined) { // it came at the same moment
		s.Leave(l)
		return nil, context.Cause(ctx)
	}
	return l, err
}

// Begin opens the step of a lease that has none.
func (s Steps) Begin(l *Lease) (undolog.StepID, error) {
	return messages.Request(context.Background(), s.Ref, func(r *messages.Reply[undolog.StepID]) any { return &Begin{l, r} })
}

// Finish ends the step; the lease goes on.
func (s Steps) Finish(m Finish) (Finished, error) {
	return messages.Request(context.Background(), s.Ref, func(r *messages.Reply[Finished]) any {
		m.Reply = r
		return &m
	})
}

// Leave ends the lease. It may be called more than once.
func (s Steps) Leave(l *Lease) {
	if !l.left.Swap(true) {
		s.Tell(&leave{})
	}
}

func (a *Actor) onOpen(m *Open) {
	h := a.o.Holder.lease
	switch {
	case a.o.Holder.over && m.Kind == Command:
		m.Reply.Fail(messages.ErrEnding)
	case h == nil:
		a.grant(m, false)
	case m.Kind == Write && h.takes:
		a.join(m, false)
	case m.Wait == Refuse && a.commands(m.Kind == Command), len(a.waiting) >= MaxQueue:
		m.Reply.Fail(messages.ErrBusy)
	default:
		at := len(a.waiting)
		if m.Wait == First {
			at = 0
		}
		a.waiting = slices.Insert(a.waiting, at, m)
		if cancel := h.open.Cancel; m.Preempt != nil && cancel != nil {
			go cancel(m.Preempt)
		}
	}
	a.showQueue()
}

// commands tells whether a command runs, or waits.
func (a *Actor) commands(waits bool) bool {
	return a.o.Holder.lease.open.Kind == Command ||
		waits && slices.ContainsFunc(a.waiting, func(o *Open) bool { return o.Kind == Command })
}

func (a *Actor) showQueue() {
	n := len(a.waiting)
	if n == a.shown {
		return
	}
	a.shown = n
	if n == 0 {
		a.o.Node.SetFact("queue", "")
		return
	}
	a.o.Node.SetFact("queue", fmt.Sprint(n))
}

// grant gives the lease to m, with an open step if it wants one.
func (a *Actor) grant(m *Open, waited bool) {
	l := &Lease{open: m, waited: waited}
	a.o.Holder.lease = l
	if m.Kind == Apply || m.Later {
		a.give(l, nil)
		return
	}
	a.begin(l, func(err error) { a.give(l, err) })
}

// give answers who asked for the lease.
func (a *Actor) give(l *Lease, err error) {
	if err == nil {
		l.granted = true
		l.open.Reply.Send(l, nil)
		return
	}
	l.open.Reply.Fail(err)
	a.free()
}

// join lets a write take part in the holder's step.
func (a *Actor) join(m *Open, waited bool) {
	h := a.o.Holder.lease
	l := &Lease{Step: h.Step, Joined: true, open: m, waited: waited}
	h.members = append(h.members, l)
	m.Reply.Send(l, nil)
}

// admit lets writes take part in the step of the lease, beginning with those that
// wait.
func (a *Actor) admit(l *Lease) {
	l.takes = true
	a.waiting = slices.DeleteFunc(a.waiting, func(o *Open) bool {
		if o.Kind == Write {
			a.join(o, true)
		}
		return o.Kind == Write
	})
	a.showQueue()
}

func (a *Actor) onWithdraw(m *withdraw) {
	if i := slices.Index(a.waiting, m.open); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		m.open.Reply.Fail(m.cause)
		a.showQueue()
	}
}

// sweep goes on when who had the lease has left, or all that took part in a step
// that ends.
func (a *Actor) sweep() {
	h := a.o.Holder.lease
	if h == nil {
		return
	}
	h.members = slices.DeleteFunc(h.members, func(l *Lease) bool { return l.left.Load() })
	switch {
	case len(h.members) > 0:
	case h.left.Load():
		a.free()
	case a.phase == settling:
		a.settled()
	}
}

// free gives the lease to the next.
func (a *Actor) free() {
	if a.o.Holder.lease.open.Last {
		a.o.Holder.over = true
		a.waiting = slices.DeleteFunc(a.waiting, func(o *Open) bool {
			if o.Kind == Command {
				o.Reply.Fail(messages.ErrEnding)
			}
			return o.Kind == Command
		})
	}
	a.o.Holder.lease = nil
	if len(a.waiting) == 0 {
		return
	}
	m := a.waiting[0]
	a.waiting = a.waiting[1:]
	a.showQueue()
	a.grant(m, true)
}

// abandon answers everybody who waits: this instance has crashed, or stops. Who
// has a lease still leaves; until then the next instance gives none.
func (a *Actor) abandon(why error) {
	for _, m := range a.waiting {
		m.Fail(why)
	}
	a.waiting = nil
	a.showQueue()
	h := a.o.Holder.lease
	switch {
	case h == nil:
	case !h.granted: // and nobody will leave
		a.o.Holder.lease = nil
		h.open.Fail(why)
	default:
		h.takes = false
	}
}
