package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// stopTime bounds the stop of a guest whose actor crashed.
const stopTime = 10 * time.Second

// Options make an [Actor].
type Options struct {
	Runtime hypervisor.Runtime
	Config  hypervisor.Config
	Logger  *slog.Logger
	Node    *supervision.Node
	// Down is told when the guest ended without being asked to. It must not
	// block.
	Down func(err error)
	// Slot holds the guest across restarts of the actor.
	Slot *Slot
}

// Slot is where the running guest is found. It is safe for concurrent use.
type Slot struct {
	mu     sync.Mutex
	guest  hypervisor.Guest
	closed bool // it takes no commands
}

// Guest returns the running guest, or nil.
func (s *Slot) Guest() hypervisor.Guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guest
}

// Active returns the guest that commands can be started in, or nil: then [Exec]
// says why. Starting one decides nothing, so that it need not go through the
// mailbox.
func (s *Slot) Active() hypervisor.Guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return s.guest
}

func (s *Slot) set(g hypervisor.Guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guest, s.closed = g, false
}

// close lets no more commands start.
func (s *Slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Start brings the guest up. Context bounds the start.
type Start struct {
	Context context.Context
	Reply   *messages.Reply[struct{}]
}

// Exec starts a command.
type Exec struct {
	Context context.Context
	Command hypervisor.Command
	Reply   *messages.Reply[hypervisor.Process]
}

// Stop ends the guest. Afterwards another can be started.
type Stop struct {
	Context context.Context
	Reply   *messages.Reply[struct{}]
}

// Hold pauses the guest, where the runtime can, until everything that holds it
// was released: while somebody decides about one of its requests it cannot make
// others, nor run into limits of its own.
type Hold struct{ ID string }

// Release takes one hold back, or all (no ID): a command that is to be cancelled
// cannot end in a guest that stands still.
type Release struct{ ID string }

// Fail answers whoever waits.
func (m *Start) Fail(err error) { m.Reply.Fail(err) }
func (m *Exec) Fail(err error)  { m.Reply.Fail(err) }
func (m *Stop) Fail(err error)  { m.Reply.Fail(err) }

type started struct {
	guest hypervisor.Guest
	err   error
	reply *messages.Reply[struct{}]
}

// Fail answers whoever waits, and leaves no guest behind: nobody will stop it.
func (m *started) Fail(err error) {
	m.reply.Fail(err)
	stop(m.guest)
}

type switched struct {
	guest  hypervisor.Guest
	frozen bool
	err    error
}

type down struct{ guest hypervisor.Guest }

type halted struct {
	guest hypervisor.Guest
	err   error
	reply *messages.Reply[struct{}]
}

// Actor is the machine actor.
type Actor struct {
	o     Options
	tell  func(any)
	state string // idle, starting, active, stopping, stopped, failed
	guest hypervisor.Guest
	last  error

	cancel context.CancelFunc // the start that is under way
	stops  []*Stop            // that wait for its end

	holds     map[string]struct{}
	frozen    bool // the guest is paused
	switching bool // it is being paused, or resumed
}

// New makes a fresh instance.
func New(o Options) *Actor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Actor{o: o, state: "idle", holds: map[string]struct{}{}}
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		a.release()
	case *actor.Stopped:
	case *Start:
		a.onStart(m)
	case *started:
		a.onGuest(m)
	case *Exec:
		a.onExec(m)
	case *Stop:
		a.onStop(m)
	case *halted:
		a.onHalted(m)
	case *down:
		a.onDown(m)
	case *Hold:
		a.holds[m.ID] = struct{}{}
		a.settle()
	case *Release:
		if delete(a.holds, m.ID); m.ID == "" {
			clear(a.holds)
		}
		a.settle()
	case *switched:
		a.onSwitched(m)
	default:
		a.log().Error("unknown message", "type", fmt.Sprintf("%T", m))
	}
	a.o.Node.SetState(a.state)
}

func (a *Actor) log() *slog.Logger { return a.o.Logger.With("component", "session") }

func (a *Actor) onStarted(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.tell = func(m any) { root.Send(self, m) }
	if a.o.Slot.Guest() != nil { // a predecessor crashed with it
		a.o.Slot.set(nil)
		a.state, a.last = "failed", messages.ErrCrashed
		if a.o.Down != nil {
			a.o.Down(messages.ErrCrashed)
		}
	}
}

// release leaves no guest behind.
func (a *Actor) release() {
	for _, m := range a.stops {
		m.Fail(messages.ErrCrashed)
	}
	a.stops = nil
	if a.state != "stopped" {
		stop(a.guest)
	}
}

// stop ends a guest, if there is one, for nobody who waits.
func stop(guest hypervisor.Guest) {
	if guest == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		_ = guest.Stop(ctx)
	}()
}

func (a *Actor) onStart(m *Start) {
	if a.o.Runtime == nil || a.cancel != nil || a.guest != nil {
		m.Reply.Fail(fmt.Errorf("%w (machine is %s)", messages.ErrNoMachine, a.state))
		return
	}
	a.state, a.last = "starting", nil
	log, name := a.log(), a.o.Runtime.Name()
	ctx, cancel := context.WithCancel(m.Context)
	a.cancel = cancel
	go func() {
		defer cancel()
		begin := time.Now()
		guest, err := a.o.Runtime.Start(ctx, a.o.Config)
		if err != nil {
			log.Info("runtime not started", "runtime", name, "err", err) // who asked is told, and reports it
		} else {
			log.Info("runtime started", "runtime", name, "took_us", time.Since(begin).Microseconds())
		}
		a.tell(&started{guest, err, m.Reply})
	}()
}

func (a *Actor) onGuest(m *started) {
	stops := a.stops
	a.cancel, a.stops = nil, nil
	if m.err != nil {
		a.state, a.last = "failed", m.err
		m.reply.Fail(m.err)
	} else {
		a.guest = m.guest
		a.frozen, a.switching = false, false
		clear(a.holds)
	}
	if len(stops) > 0 {
		m.reply.Fail(messages.ErrStopped)
		for _, stop := range stops {
			a.onStop(stop)
		}
		return
	}
	if m.err != nil {
		return
	}
	a.o.Slot.set(m.guest)
	a.state = "active"
	for k, v := range m.guest.Facts() {
		a.o.Node.SetFact(k, v)
	}
	go func() {
		<-m.guest.Done()
		a.tell(&down{m.guest})
	}()
	m.reply.Send(struct{}{}, nil)
}

func (a *Actor) onExec(m *Exec) {
	if a.state != "active" {
		m.Reply.Fail(errors.Join(fmt.Errorf("%w (machine is %s)", messages.ErrNoMachine, a.state), a.last))
		return
	}
	guest := a.guest
	go func() { m.Reply.Send(Run(m.Context, guest, m.Command, a.o.Logger)) }()
}

// Run starts a command in a guest.
func Run(ctx context.Context, guest hypervisor.Guest, c hypervisor.Command, log *slog.Logger) (hypervisor.Process, error) {
	log = log.With("component", "control", "step_id", c.Step)
	// Arguments may hold secrets; the history has them, a log is passed on.
	log.Info("command dispatched", "program", c.Argv[0], "arguments", len(c.Argv)-1)
	p, err := guest.Exec(ctx, c)
	if err != nil {
		level := slog.LevelWarn
		if start := (*hypervisor.StartError)(nil); errors.As(err, &start) {
			level = slog.LevelInfo // whoever asked is told that there is no such program
		}
		log.Log(ctx, level, "command not started", "err", err)
	}
	return p, err
}

func (a *Actor) onStop(m *Stop) {
	if a.cancel != nil { // else it would run after all
		a.state, a.stops = "stopping", append(a.stops, m)
		a.cancel()
		return
	}
	if a.guest == nil {
		a.state = "stopped"
		m.Reply.Send(struct{}{}, nil)
		return
	}
	a.state = "stopping"
	a.o.Slot.close()
	guest, log := a.guest, a.log()
	go func() {
		err := guest.Stop(m.Context)
		if err != nil {
			log.Warn("runtime did not stop cleanly", "err", err)
		} else {
			log.Info("runtime stopped")
		}
		a.tell(&halted{guest, err, m.Reply})
	}()
}

func (a *Actor) onHalted(m *halted) {
	if a.guest == m.guest && m.err == nil {
		a.guest, a.state = nil, "stopped"
		a.o.Slot.set(nil)
	}
	m.reply.Send(struct{}{}, m.err)
}

// Fail answers whoever waits.
func (m *halted) Fail(err error) { m.reply.Fail(err) }

func (a *Actor) onDown(m *down) {
	if a.guest != m.guest {
		return
	}
	a.o.Slot.set(nil)
	if a.state == "stopping" {
		return
	}
	a.state, a.last = "failed", m.guest.Err()
	a.log().Error("the guest ended", "err", a.last)
	a.o.Node.SetError(fmt.Sprint(a.last))
	if a.o.Down != nil {
		a.o.Down(a.last)
	}
}

// settle pauses or resumes the guest if that is not what it does.
func (a *Actor) settle() {
	want := len(a.holds) > 0
	if a.state != "active" || a.switching || want == a.frozen {
		return
	}
	guest, can := a.guest.(hypervisor.Pauser)
	if !can {
		a.unpaused()
		return
	}
	a.switching = true
	of := a.guest
	go func() {
		var err error
		if want {
			err = guest.Pause(context.Background())
		} else {
			err = guest.Resume(context.Background())
		}
		a.tell(&switched{of, want, err})
	}()
}

// unpaused forgets who holds a guest that goes on all the same: the requests are held.
func (a *Actor) unpaused() {
	clear(a.holds)
	a.o.Node.SetFact("paused", "false")
}

func (a *Actor) onSwitched(m *switched) {
	if a.guest != m.guest {
		return
	}
	a.switching = false
	switch {
	case m.err == nil:
		a.frozen = m.frozen
		a.o.Node.SetFact("paused", strconv.FormatBool(a.frozen))
		a.log().Info("machine switched", "paused", a.frozen)
	case m.frozen:
		a.unpaused()
		a.log().Warn("the machine was not paused", "err", m.err)
		return
	default: // a guest that stands still for ever is of no use
		a.log().Error("the machine does not go on", "err", m.err)
		a.o.Node.SetError(m.err.Error())
		a.frozen = false
		a.release()
		return
	}
	a.settle()
}
