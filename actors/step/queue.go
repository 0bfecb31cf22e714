package step

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// MaxQueue is how many requests wait at most.
const MaxQueue = 256

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
// open a write does not wait for its end but takes part in it, and so does a
// command that shares. It fails with ErrBusy if it does not wait or the queue is
// full.
type Open struct {
	Kind Kind
	Wait Wait
	// Share lets a command run in the open step of other commands, at the same time.
	// Then it waits only for a step that is about to end, or while as many commands
	// run as may.
	Share bool
	// Queued is told, before Lease returns, that the command waits because no more may
	// run. It may be nil.
	Queued func(Running)
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

	queued chan Running // has room for one
}

// Running says what runs while somebody waits.
type Running struct {
	Step     undolog.StepID
	Command  string // that opened the step
	Commands int
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
	Joined bool           // somebody else has opened the step

	// left is set by who has left, before the actor is told: it may be between two
	// lives, and miss the message.
	left atomic.Bool

	// What follows is the actor's.
	open    *Open
	waited  bool   // in the queue
	cancel  func() // ends the command
	started time.Time
	record  int // its place in the step's list of commands; -1: none
}

// turn is the time in which somebody has the folders: all who take part in one step,
// or one who opens none.
type turn struct {
	open    *Open    // of who came first
	leases  []*Lease // of those who have not left
	granted bool     // somebody has it, and will leave
	takes   bool     // others may take part in the step
	last    bool
}

func (t *turn) writes() bool {
	return slices.ContainsFunc(t.leases, func(l *Lease) bool { return l.Joined && l.open.Kind == Write && !l.left.Load() })
}

// Holder is who has the folders. It outlives restarts of the actor: what a crash
// leaves behind must end before anybody else gets them. Its content is the actor's.
type Holder struct {
	turn *turn
	over bool // it takes no more commands
	// rolling is in how many folders the step of an instance that has crashed is still being rolled back. Who answers
	// counts: it may be that no instance lives just then.
	rolling atomic.Int32
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
	o.queued = make(chan Running, 1)
	s.Tell(&o)
	for waits := true; waits; {
		select {
		case res := <-o.Reply.C():
			return res.Value, res.Err
		case r := <-o.queued:
			if o.Queued != nil {
				o.Queued(r)
			}
		case <-ctx.Done():
			s.Tell(&withdraw{&o, context.Cause(ctx)})
			waits = false
		case <-s.Stopped:
			waits = false
		}
	}
	l, err := o.Reply.Wait(context.Background(), s.Stopped)
	if err == nil && l.waited && (l.Step == 0 || l.Joined && o.Kind == Write) { // it came at the same moment
		s.Leave(l)
		return nil, context.Cause(ctx)
	}
	return l, err
}

// Begin opens the step of a lease that has none.
func (s Steps) Begin(l *Lease) (undolog.StepID, error) {
	return messages.Request(context.Background(), s.Ref, func(r *messages.Reply[undolog.StepID]) any { return &Begin{l, r} })
}

// Ended returns when the step is not open any more, or ctx ends. The outcome is empty
// unless the step was rolled back. Of a step that had ended before nothing is told.
func (s Steps) Ended(ctx context.Context, id undolog.StepID) (Finished, error) {
	return messages.Request(ctx, s.Ref, func(r *messages.Reply[Finished]) any { return &waitEnd{id, r} })
}

// Cancel cancels all commands that run, by the Cancel of their [Open], and returns how
// many there were.
func (s Steps) Cancel(ctx context.Context, cause error) (int, error) {
	return messages.Request(ctx, s.Ref, func(r *messages.Reply[int]) any { return &cancelAll{cause, r} })
}

// Finish says that the lease's command, or write, has ended; the lease goes on. If it
// was the last, the step ends.
func (s Steps) Finish(m Finish) (Finished, error) {
	return messages.Request(context.Background(), s.Ref, func(r *messages.Reply[Finished]) any {
		m.Reply = r
		return &m
	})
}

// StaysOn says that the lease's command goes on after the lease: the end of the lease is
// not the end of the session, even if it was asked for as the last one.
func (s Steps) StaysOn(l *Lease) { s.Tell(&staysOn{l}) }

type staysOn struct{ lease *Lease }

func (a *Actor) onStaysOn(m *staysOn) {
	if t := a.o.Holder.turn; t != nil && m.lease.open.Last && slices.Contains(t.leases, m.lease) {
		t.last = false
	}
}

// Leave ends the lease. It may be called more than once.
func (s Steps) Leave(l *Lease) {
	if !l.left.Swap(true) {
		s.Tell(&leave{})
	}
}

func (a *Actor) onOpen(m *Open) {
	t := a.o.Holder.turn
	switch {
	case a.o.Holder.over && m.Kind == Command:
		m.Reply.Fail(messages.ErrEnding)
	case t == nil:
		a.grant(m, false)
	case a.joins(m):
		a.join(m, false)
	case m.Wait == Refuse && a.refuses(m), len(a.waiting) >= MaxQueue:
		m.Reply.Fail(messages.ErrBusy)
	default:
		a.queue(m)
	}
	a.showQueue()
}

// joins tells whether m may take part in the open step now. Nobody who may waits
// behind somebody who may not: who waits for the end of a step waits for no command
// that comes later.
func (a *Actor) joins(m *Open) bool {
	if !a.o.Holder.turn.takes {
		return false
	}
	return m.Kind == Write || m.Kind == Command && m.Share && len(a.running) < a.o.Commands
}

// refuses tells whether m, which does not wait, has to. A command that shares waits
// for the end of a step all the same: no command runs then.
func (a *Actor) refuses(m *Open) bool {
	if len(a.o.Holder.turn.leases) == 0 { // nobody has the folders: what a crash has left is rolled back, which ends by itself
		return false
	}
	command := a.o.Holder.turn.open.Kind == Command
	switch {
	case m.Kind != Command:
		return command
	case m.Share:
		return command && a.phase == running && a.outcome == ""
	}
	return command || slices.ContainsFunc(a.waiting, func(o *Open) bool { return o.Kind == Command })
}

// queue lets m wait.
func (a *Actor) queue(m *Open) {
	t := a.o.Holder.turn
	at := len(a.waiting)
	if m.Wait == First {
		at = 0
	}
	a.waiting = slices.Insert(a.waiting, at, m)
	if m.Kind == Command && a.phase == running && m.queued != nil {
		m.queued <- Running{a.id, t.open.Info.Command, len(a.running)}
	}
	if m.Preempt == nil {
		return
	}
	t.takes = false
	for _, l := range t.leases {
		if cancel := l.open.Cancel; cancel != nil {
			go cancel(m.Preempt)
		}
	}
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

// grant gives m the folders, with an open step if it wants one.
func (a *Actor) grant(m *Open, waited bool) {
	l := &Lease{open: m, waited: waited}
	a.o.Holder.turn = &turn{open: m, leases: []*Lease{l}, last: m.Last}
	if m.Kind == Apply || m.Later {
		a.give(l, nil)
		return
	}
	a.begin(l, func(err error) { a.give(l, err) })
}

// give answers who asked for the lease.
func (a *Actor) give(l *Lease, err error) {
	if err == nil {
		a.o.Holder.turn.granted = true
		l.open.Reply.Send(l, nil)
		return
	}
	l.open.Reply.Fail(err)
	a.free()
}

// join lets a write or a command take part in the open step.
func (a *Actor) join(m *Open, waited bool) {
	t := a.o.Holder.turn
	l := &Lease{Step: a.id, Joined: true, open: m, waited: waited}
	t.leases = append(t.leases, l)
	if m.Kind == Command {
		t.last = t.last || m.Last
		a.runs(l)
		if a.o.Joined != nil {
			a.o.Joined(a.id, m)
		}
	}
	m.Reply.Send(l, nil)
}

// admit lets those who wait take part in the open step.
func (a *Actor) admit() {
	a.waiting = slices.DeleteFunc(a.waiting, func(o *Open) bool {
		if !a.joins(o) {
			return false
		}
		a.join(o, true)
		return true
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

// sweep goes on when everybody has left, or the writes that took part in a step that
// ends.
func (a *Actor) sweep() {
	t := a.o.Holder.turn
	if t == nil || a.o.Holder.rolling.Load() > 0 {
		return
	}
	t.leases = slices.DeleteFunc(t.leases, func(l *Lease) bool { return l.left.Load() })
	switch {
	case a.phase == settling && !t.writes():
		a.settled()
	case len(t.leases) == 0:
		a.free()
	}
}

// free gives the folders to the next.
func (a *Actor) free() {
	if a.o.Holder.turn.last {
		a.o.Holder.over = true
		a.waiting = slices.DeleteFunc(a.waiting, func(o *Open) bool {
			if o.Kind == Command {
				o.Reply.Fail(messages.ErrEnding)
			}
			return o.Kind == Command
		})
	}
	a.o.Holder.turn = nil
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
	t := a.o.Holder.turn
	switch {
	case t == nil:
	case !t.granted: // and nobody will leave
		t.open.Fail(why)
		if t.leases, t.last, t.takes = nil, false, false; a.o.Holder.rolling.Load() == 0 {
			a.o.Holder.turn = nil
		}
	default:
		t.takes = false
	}
}
