package step

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// Directory is one writable working folder. The functions given are called
// once, from any goroutine. None of the methods blocks, except NextID for the
// time of a small write.
type Directory interface {
	Path() string
	NextID() undolog.StepID
	Assign(id undolog.StepID, info undolog.StepInfo, done func(error))
	Close(id undolog.StepID, r undolog.StepResult, done func(*undolog.Entry, error))
	Failing(id undolog.StepID)
	Abort(id undolog.StepID, done func(error))
	// InFlight, Holding and LastMutation are for quiescence.
	InFlight() int
	Holding() bool
	LastMutation() time.Time
}

// Options make an [Actor].
type Options struct {
	Directories []Directory
	Idle, Max   time.Duration
	Clock       supervision.Clock
	Logger      *slog.Logger
	Node        *supervision.Node
	// Commands is how many run at once at most; below 1 means [messages.Commands].
	Commands int
	// Opened is told of a step that is open from now on, Joined of a command that takes
	// part in it, Ended that none is open, before whoever asked for it. Running is told
	// which commands run, whenever that changes; the slice is its own. They must not
	// block; they may be nil.
	Opened  func(id undolog.StepID, as *Open)
	Joined  func(id undolog.StepID, as *Open)
	Running func([]api.RunningCommand)
	Ended   func()
	// Holder outlives restarts; nil makes one that does not.
	Holder *Holder
}

// poll is how often unfinished requests are counted.
const poll = 5 * time.Millisecond

type phase string

const (
	idle      phase = "idle"
	opening   phase = "opening"
	running   phase = "running"
	settling  phase = "settling" // no command runs, but writes take part yet
	quiescing phase = "quiescing"
	closing   phase = "closing"
	aborting  phase = "rolling_back"
)

// Actor is the step actor.
type Actor struct {
	o     Options
	tell  func(any)
	timer *supervision.Timer

	waiting []*Open // for the lease
	shown   int     // of them, in the tree

	current // the step
}

// current is the step that is being opened, open, or being ended. The zero value,
// but for the phase, is none.
type current struct {
	phase    phase
	lease    *Lease      // of who opens it
	begun    func(error) // answers them
	id       undolog.StepID
	running  []*Lease  // whose Finish has not come
	finishes []*Finish // that are answered when the step has ended
	quiet    bool      // as the newest Finish says
	prompt   bool
	ran      record
	since    time.Time // when the last command ended
	outcome  string    // "" while all is well
	reason   string
	left     bool // it could not be rolled back
	rolled   []*messages.Reply[int64]
	watchers []*messages.Reply[Finished] // that wait for the end
	awaiting int
	errs     []error
	entries  []Entry
}

// New makes a fresh instance.
func New(o Options) *Actor {
	if o.Holder == nil {
		o.Holder = &Holder{}
	}
	if o.Commands < 1 {
		o.Commands = messages.Commands
	}
	return &Actor{o: o, current: current{phase: idle}}
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		self, root := ctx.Self(), ctx.ActorSystem().Root
		a.tell = func(m any) { root.Send(self, m) }
		a.timer = supervision.NewTimer(a.o.Clock, a.tell)
		a.sweep()
	case *actor.Restarting:
		a.release(messages.ErrCrashed)
	case *actor.Stopping:
		a.release(messages.ErrStopped)
	case *actor.Stopped:
	case *Open:
		a.onOpen(m)
	case *withdraw:
		a.onWithdraw(m)
	case *Begin:
		a.onBegin(m)
	case *staysOn:
		a.onStaysOn(m)
	case *leave:
		a.sweep()
	case *reserved:
		a.onReserved(m)
	case *assigned:
		a.onAssigned(m)
	case *Attach:
		a.onAttach(m)
	case *Finish:
		a.onFinish(m)
	case *waitEnd:
		a.onEnded(m)
	case *cancelAll:
		a.onCancelAll(m)
	case *supervision.Tick:
		if a.timer.Fresh(m) && a.phase == quiescing {
			a.quiesce()
		}
	case *closed:
		a.onClosed(m)
	case *messages.StepFail:
		a.onFail(m)
	case *aborted:
		a.onAborted(m)
	default:
		a.log().Error("unknown message", "type", fmt.Sprintf("%T", m))
	}
	a.o.Node.SetState(string(a.phase))
}

func (a *Actor) log() *slog.Logger {
	l := a.o.Logger
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return l.With("component", "control", "step_id", int64(a.id))
}

// release gives up the open step: a step without its actor is rolled back. Who
// waits for a lease is told why.
func (a *Actor) release(why error) {
	a.timer.Stop()
	a.ended()
	if a.begun != nil && a.o.Holder.turn.granted {
		a.begun(messages.ErrCrashed)
	}
	if a.id != 0 {
		a.o.Holder.rolling.Store(int32(len(a.o.Directories)))
	}
	a.abandon(why)
	for _, m := range a.finishes {
		m.Fail(messages.ErrCrashed)
	}
	for _, r := range a.rolled {
		r.Fail(messages.ErrCrashed)
	}
	for _, r := range a.watchers {
		r.Fail(messages.ErrCrashed)
	}
	if a.id == 0 {
		return
	}
	h, tell := a.o.Holder, a.tell
	for _, d := range a.o.Directories {
		d.Abort(a.id, func(error) {
			if h.rolling.Add(-1) == 0 {
				tell(&leave{}) // the next instance gives the folders to whoever waits
			}
		})
	}
	a.end()
}

// onBegin opens the step of a lease that has none.
func (a *Actor) onBegin(m *Begin) {
	if t := a.o.Holder.turn; t == nil || !slices.Contains(t.leases, m.Lease) || m.Lease.left.Load() {
		m.Reply.Fail(messages.ErrCrashed)
		return
	}
	a.begin(m.Lease, func(err error) { m.Reply.Send(m.Lease.Step, err) })
}

// begin opens a step.
func (a *Actor) begin(l *Lease, begun func(error)) {
	if a.phase != idle {
		begun(messages.ErrBusy)
		return
	}
	a.current = current{phase: opening, lease: l, begun: begun}
	dirs, tell := a.o.Directories, a.tell
	go func() {
		r := &reserved{lease: l}
		for _, d := range dirs {
			r.id = max(r.id, d.NextID())
		}
		tell(r)
	}()
}

func (a *Actor) onReserved(m *reserved) {
	if a.phase != opening || a.lease != m.lease {
		return
	}
	if m.id == 0 && len(a.o.Directories) > 0 {
		a.notBegun(errors.New("no step id: the undo directory cannot be written; free some space, or name another with --undo-dir"))
		return
	}
	a.id = max(m.id, 1)
	a.awaiting = len(a.o.Directories)
	id := a.id
	for _, d := range a.o.Directories {
		d.Assign(id, a.lease.open.Info, func(err error) { a.tell(&assigned{id, err}) })
	}
	if a.awaiting == 0 {
		a.opened()
	}
}

func (a *Actor) onAssigned(m *assigned) {
	if a.phase != opening || m.id != a.id {
		return
	}
	if m.err != nil {
		a.errs = append(a.errs, m.err)
	}
	if a.awaiting--; a.awaiting == 0 {
		a.opened()
	}
}

func (a *Actor) opened() {
	if err := errors.Join(a.errs...); err != nil {
		for _, d := range a.o.Directories {
			d.Close(a.id, undolog.StepResult{Status: messages.OutcomeFailed}, func(*undolog.Entry, error) {})
		}
		a.notBegun(err)
		return
	}
	l, begun := a.lease, a.begun
	a.phase, a.begun = running, nil
	a.o.Node.SetFact("step", fmt.Sprint(a.id))
	l.Step = a.id
	a.runs(l)
	if a.o.Opened != nil {
		a.o.Opened(a.id, l.open)
	}
	begun(nil)
	if l.open.Kind == Command {
		a.o.Holder.turn.takes = !slices.ContainsFunc(a.waiting, func(o *Open) bool { return o.Preempt != nil })
		a.admit()
	}
}

// notBegun gives up a step that could not be opened.
func (a *Actor) notBegun(err error) {
	begun := a.begun
	a.current = current{phase: idle}
	begun(err)
}

func (a *Actor) ended() {
	if a.o.Ended != nil {
		a.o.Ended()
	}
}

// settled goes on when the commands have ended, and every write that took part in
// their step.
func (a *Actor) settled() {
	a.since = a.o.Clock.Now()
	if a.outcome != "" {
		a.abort()
		return
	}
	a.phase = quiescing
	a.quiesce()
}

// quiesce closes the step, or looks again a little later.
func (a *Actor) quiesce() {
	now := a.o.Clock.Now()
	inFlight, holding, wait := 0, false, time.Duration(0)
	for _, d := range a.o.Directories {
		holding = holding || d.Holding()
		if a.prompt {
			continue
		}
		inFlight += d.InFlight()
		if !a.quiet {
			wait = max(wait, a.o.Idle-now.Sub(d.LastMutation()))
		}
	}
	if holding || (inFlight > 0 || wait > 0) && now.Sub(a.since) < a.o.Max {
		if inFlight > 0 || holding {
			wait = poll
		}
		a.timer.Reset(min(wait, max(poll, a.o.Max-now.Sub(a.since))))
		return
	}
	if inFlight > 0 {
		a.log().Warn("requests are still in flight at the end of the longest wait", "requests", inFlight)
	}
	a.phase, a.awaiting = closing, len(a.o.Directories)
	id, result := a.id, a.ran.result()
	for _, d := range a.o.Directories {
		d.Close(id, result, func(e *undolog.Entry, err error) { a.tell(&closed{id, d.Path(), e, err}) })
	}
	if a.awaiting == 0 {
		a.done()
	}
}

func (a *Actor) onClosed(m *closed) {
	if a.phase != closing || m.id != a.id {
		return
	}
	if m.err != nil {
		a.errs = append(a.errs, fmt.Errorf("%s: %w", m.dir, m.err))
	}
	if m.entry != nil {
		a.entries = append(a.entries, Entry{m.dir, m.entry})
	}
	if a.awaiting--; a.awaiting > 0 {
		return
	}
	switch {
	case a.outcome != "" && len(a.errs) == 0 && len(a.entries) > 0: // it came too late: the step is kept
		for _, r := range a.rolled {
			r.Send(0, nil)
		}
		a.outcome, a.reason = "", ""
		a.done()
	case a.outcome != "":
		a.abort()
	case len(a.errs) > 0:
		err := errors.Join(a.errs...)
		a.outcome, a.reason, a.left = messages.OutcomeFailed, err.Error(), errors.Is(err, messages.ErrNotRolledBack)
		a.errs = nil
		a.abort()
	default:
		a.done()
	}
}

// onFail makes the open step fail.
func (a *Actor) onFail(m *messages.StepFail) {
	if a.phase == idle || a.phase == opening || m.Step != 0 && m.Step != int64(a.id) {
		m.Done.Send(0, nil)
		return
	}
	if m.Done != nil {
		a.rolled = append(a.rolled, m.Done)
	}
	if a.outcome != "" {
		return
	}
	a.outcome, a.reason = m.Outcome, m.Reason
	a.log().Info("step fails", "outcome", m.Outcome, "reason", m.Reason)
	for _, d := range a.o.Directories {
		d.Failing(a.id)
	}
	a.o.Holder.turn.takes = false
	switch a.phase {
	case running:
		a.end()
	case quiescing:
		a.abort()
	}
}

func (a *Actor) abort() {
	a.timer.Stop()
	a.phase, a.awaiting = aborting, len(a.o.Directories)
	id := a.id
	for _, d := range a.o.Directories {
		d.Abort(id, func(err error) { a.tell(&aborted{id, d.Path(), err}) })
	}
	if a.awaiting == 0 {
		a.done()
	}
}

func (a *Actor) onAborted(m *aborted) {
	if a.phase != aborting || m.id != a.id {
		return
	}
	if m.err != nil {
		a.left = true
		a.reason += fmt.Sprintf("; roll back of %s: %v", m.dir, m.err)
	}
	if a.awaiting--; a.awaiting == 0 {
		a.done()
	}
}

// done answers and is ready for the next step.
func (a *Actor) done() {
	a.ended()
	for _, m := range a.finishes {
		f := Finished{Outcome: a.outcome, Reason: a.reason, Left: a.left, Entries: a.entries}
		if f.Outcome == "" {
			f.Outcome = m.Result.Status
		}
		m.Reply.Send(f, nil)
	}
	for _, r := range a.rolled {
		r.Send(int64(a.id), nil)
	}
	for _, r := range a.watchers {
		r.Send(Finished{Outcome: a.outcome, Reason: a.reason, Left: a.left, Entries: a.entries}, nil)
	}
	a.o.Node.SetFact("step", "")
	a.current = current{phase: idle}
}
