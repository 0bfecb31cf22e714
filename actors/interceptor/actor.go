package interceptor

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// assignment is the command's step that the directory's mutations belong to.
// It outlives restarts of the actor.
type assignment struct {
	id      undolog.StepID
	info    undolog.StepInfo
	failing bool // actor state
}

// Actor is the Interceptor's deciding half. One instance lives until it panics.
type Actor struct {
	h    *Hooks
	log  *slog.Logger
	tell func(any)

	recovered bool
	waiting   []*messages.Reply[struct{}] // for recovered
	before    *assignment                 // when this instance began

	open   undolog.StepID // the step that is open in the log, or 0
	holds  supervision.HoldQueue[*request]
	asking *pending
	// protecting are the questions about protected entries; nothing else waits for them.
	protecting []*protectAsk
	token      uint64
	deletes    int
	sample     []string
	denied     bool // the ambient step that is open, until it is rolled back

	beginning *request    // for which a step is being opened
	gone      atomic.Bool // a successor will recover the log, or nobody will use it

	idle     *supervision.Timer
	jobs     jobs
	standing standing
}

// pending is a safeguard that somebody is being asked about.
type pending struct {
	token uint64
	kind  string
	ask   *messages.Ask
	about *request // that made us ask
}

// paused says that no host mutation is under way any more.
type paused struct {
	token   uint64
	callers []messages.Process // who asks
}

// NewActor makes a fresh instance for the hooks.
func NewActor(h *Hooks) *Actor {
	a := &Actor{h: h, log: h.log}
	a.holds.MaxOps, a.holds.MaxBytes = h.o.MaxHeldOps, h.o.MaxHeldBytes
	return a
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case *actor.Restarting:
		a.release()
	case *actor.Stopping:
		if j := a.jobs.running; j != nil { // no later instance will hear of it
			go func() { // its result is its own until it ends
				<-j.finished
				j.answer(messages.ErrStopped)
			}()
		}
		a.release()
	case *actor.Stopped:
	case *request:
		a.onRequest(m)
	case *abandoned:
		a.holds.Remove(m.r)
		a.onAbandoned(m.r)
	case *crashed:
		panic(fmt.Sprintf("undo log: %v", m.reason))
	case *paused:
		if a.asking != nil && a.asking.token == m.token {
			a.asking.ask.Callers = m.callers
			a.h.o.Safeguard(a.asking.ask)
		}
	case *messages.Answer:
		a.onAnswer(m)
	case *Forget:
		a.h.forget(m.Entry)
	case *supervision.Tick:
		a.onIdle(m)
	case *fenced:
		a.jobs.fenced(m)
	case *begun:
		a.onBegun(m)
	case *recaptured:
		a.onRecaptured(m)
	case *jobDone:
		a.onDone(m)
	case *recovery:
		a.onRecovery(m)
	case *Ready:
		if a.recovered {
			m.Reply.Send(struct{}{}, a.broken())
		} else {
			a.waiting = append(a.waiting, m.Reply)
		}
	default:
		if !a.command(m) {
			a.log.Error("unknown message", "type", fmt.Sprintf("%T", m))
		}
	}
	a.settle()
}

func (a *Actor) start(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.tell = func(m any) { root.Send(self, m) }
	a.h.SetTell(a.tell)
	a.idle = supervision.NewTimer(a.h.o.Clock, a.tell)
	if a.h.gate.Load() == gateReadOnly {
		a.recovered = true
		return
	}
	a.h.closeGate()
	a.before = a.h.assigned.Load()
	a.h.o.Node.SetState("recovering")
	restarted := a.h.started.Swap(true)
	go a.h.recoverLog(a, restarted)
}

// release answers whoever waits for this instance.
func (a *Actor) release() {
	a.gone.Store(true)
	a.h.closeGate()
	if a.idle != nil {
		a.idle.Stop()
	}
	for _, r := range a.holds.TakeAll() {
		r.reply.Fail(fsbridge.ErrFailed)
	}
	a.endProtected(fsbridge.ErrFailed)
	for _, w := range a.waiting {
		w.Fail(messages.ErrCrashed)
	}
	for _, f := range a.standing.waiting {
		f(messages.ErrCrashed)
	}
	if a.asking != nil {
		a.h.o.Safeguard(&messages.Withdraw{Directory: a.h.o.Directory, Token: a.asking.token})
	}
	a.jobs.fail(messages.ErrCrashed)
}

func (a *Actor) broken() error {
	if state, problem := a.h.State(); state == "read_only" {
		return fmt.Errorf("%w: %s", messages.ErrReadOnlyDirectory, problem)
	}
	return nil
}

// onRequest decides about one mutation.
func (a *Actor) onRequest(r *request) {
	switch gate := a.h.gate.Load(); {
	case gate == gateFailing, gate == gateReadOnly, gate == gateCrashed, gate == gateClosed:
		r.reply.Fail(gateError(gate))
	case a.jobs.exclusive():
		a.hold(r, 0)
	case a.asking != nil:
		a.holdForDecision(r)
	default:
		a.decide(r)
	}
}

func (a *Actor) decide(r *request) {
	if a.open == 0 {
		if a.beginning == nil && a.jobs.lifecycle() {
			a.hold(r, 0)
			return
		}
		a.begin(r)
		return
	}
	if r.protected != nil {
		a.askProtected(r)
		return
	}
	epoch := a.h.guard.Epoch()
	if r.safe != "" && !a.h.allowed(r.safe, epoch) && r.admitted != epoch && a.trips(r) {
		r.admitted = epoch // counted; not again after the decision
		a.holdForDecision(r)
		return
	}
	r.reply.Send(epoch, nil)
}

// onIdle closes an ambient step that nobody wrote to for a while.
func (a *Actor) onIdle(t *supervision.Tick) {
	if !a.idle.Fresh(t) || a.open >= 0 {
		return
	}
	left := a.h.o.AmbientIdle - a.h.o.Clock.Now().Sub(a.h.LastMutation())
	if left <= 0 && a.h.Granted() > 0 { // the step is theirs until they end, or another step begins
		a.h.noteGranted()
		if a.h.Granted() > 0 {
			left = a.h.o.AmbientIdle
		}
	}
	if left > 0 || a.asking != nil {
		a.idle.Reset(max(left, a.h.o.AmbientIdle/8))
		return
	}
	a.flush(nil)
}

// hold keeps r back. until 0 means: without a deadline.
func (a *Actor) hold(r *request, until time.Duration) {
	if !a.holds.Push(r, r.bytes) {
		r.reply.Fail(fmt.Errorf("%w: %d operations are held already", fsbridge.ErrNoSpace, a.holds.Len()))
		return
	}
	at := int64(0)
	if until != 0 {
		at = a.h.o.Clock.Now().Add(until).UnixNano()
	}
	r.deadline.Store(at)
	if r.held != nil {
		r.held(r.number)
	}
}

func (a *Actor) holdForDecision(r *request) {
	a.hold(r, a.h.safe.Load().Timeout+2*a.h.o.ReplyDeadline)
}

// readmit decides again about everything that was held, oldest first.
func (a *Actor) readmit() {
	deadline := a.h.o.Clock.Now().Add(a.h.o.ReplyDeadline).UnixNano()
	for _, r := range a.holds.TakeAll() {
		r.deadline.Store(deadline)
		a.onRequest(r)
	}
}

// fail makes everything in the open step fail until it is rolled back.
func (a *Actor) fail() {
	a.h.moveGate(gateFailing)
	if a.asking != nil {
		a.withdraw()
	}
	for _, r := range a.holds.TakeAll() {
		r.reply.Fail(fsbridge.ErrDenied)
	}
	a.endProtected(fsbridge.ErrDenied)
}

// reopen puts the gate where it belongs when nothing is pending.
func (a *Actor) reopen() {
	switch as := a.h.assigned.Load(); {
	case as != nil && as.failing, a.denied:
		a.h.moveGate(gateFailing)
	case a.open != 0:
		a.h.moveGate(gateOpen)
	default:
		a.h.moveGate(gateIdle)
	}
}

// settle runs after every message: it starts what became possible.
func (a *Actor) settle() {
	if a.recovered {
		a.jobs.begin(a)
	}
	if a.asking != nil && a.holds.Len() == 0 && a.jobs.waiting() {
		// Whoever would have been held is dead, and the step is about to end.
		a.withdraw()
		a.reopen()
	}
	if a.recovered && a.asking == nil && a.beginning == nil && !a.standing.capturing {
		a.jobs.next(a)
	}
	a.stand()
	held := a.holds.Len()
	for _, q := range a.protecting {
		held += len(q.waiting)
	}
	a.h.o.Node.SetHolds(held, a.holds.Bytes())
}
