package session

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// State is the state of a session.
type State string

// The states of a session.
const (
	Idle     State = "idle"
	Starting State = "starting"
	Active   State = "active"
	Stopping State = "stopping"
	Failed   State = "failed"
)

// next lists where a state may go.
var next = map[State][]State{
	Idle:     {Starting, Stopping},
	Starting: {Active, Failed, Stopping},
	Active:   {Starting, Stopping, Failed}, // Starting: a reset
	Failed:   {Starting, Stopping},
	Stopping: {},
}

// Options make an [Actor]. The functions must not block; they may be nil.
type Options struct {
	Children []Child
	Board    *Board
	Node     *supervision.Node
	Logger   *slog.Logger
	// Changed hears of every change of state.
	Changed func(State, string)
	// Configured hears of every change of the safeguards.
	Configured func(api.Safeguards)
}

// Move asks for another state. The reply's error says that it cannot be reached
// from here.
type Move struct {
	To     State
	Reason string
	Reply  *messages.Reply[State]
}

// Configure replaces the safeguards' settings. The reply's error is
// [api.ErrSetting].
type Configure struct {
	Safeguards api.Safeguards
	Reply      *messages.Reply[struct{}]
}

// Decides says that a frontend shows decisions to a person, or, with Gone set,
// that it does so once less. It is answered when that is published.
type Decides struct {
	Frontend string
	Gone     bool
	Reply    *messages.Reply[struct{}]
}

// Ready is answered when the children are spawned, with the state.
type Ready struct{ Reply *messages.Reply[State] }

// Fail answers whoever waits.
func (m *Move) Fail(err error)      { m.Reply.Fail(err) }
func (m *Configure) Fail(err error) { m.Reply.Fail(err) }
func (m *Decides) Fail(err error)   { m.Reply.Fail(err) }
func (m *Ready) Fail(err error)     { m.Reply.Fail(err) }

// Actor is a session.
type Actor struct {
	o   Options
	err error
}

// New makes a fresh instance. Its state is what the board says.
func New(o Options) *Actor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Actor{o: o}
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.err = spawn(ctx, a.o.Children, a.o.Logger)
		a.o.Node.SetState(string(a.state()))
	case *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
	case *Ready:
		m.Reply.Send(a.state(), a.err)
	case *Move:
		err := a.move(m)
		m.Reply.Send(a.state(), err)
	case *Configure:
		m.Reply.Send(struct{}{}, a.configure(m.Safeguards))
	case *Decides:
		a.decides(m)
		m.Reply.Send(struct{}{}, nil)
	default:
		a.o.Logger.Error("unknown message", "component", "session", "type", fmt.Sprintf("%T", m))
	}
}

func (a *Actor) state() State { return a.o.Board.Load().State }

func (a *Actor) move(m *Move) error {
	if !slices.Contains(next[a.state()], m.To) {
		err := fmt.Errorf("session is %s and cannot become %s", a.state(), m.To)
		if m.Reply == nil { // nobody else would say it
			a.o.Logger.Warn("session state refused", "component", "session", "reason", m.Reason, "err", err)
		}
		return err
	}
	a.o.Board.publish(func(s *Snapshot) { s.State = m.To })
	a.o.Node.SetState(string(m.To))
	a.o.Logger.Info("session state", "component", "session", "state", string(m.To), "reason", m.Reason)
	if a.o.Changed != nil {
		a.o.Changed(m.To, m.Reason)
	}
	return nil
}

func (a *Actor) configure(g api.Safeguards) error {
	g, err := CheckSafeguards(g)
	if err != nil {
		return err
	}
	a.o.Board.publish(func(s *Snapshot) { s.Safeguards = g })
	if a.o.Configured != nil {
		a.o.Configured(g)
	}
	a.o.Logger.Info("safeguards changed", "component", "safeguard", "deletes", g.DeleteThreshold,
		"overwrite_bytes", g.OverwriteBytes, "rename_over", g.RenameOver, "timeout", g.Timeout.String())
	return nil
}

func (a *Actor) decides(m *Decides) {
	a.o.Board.publish(func(s *Snapshot) {
		d := maps.Clone(s.deciders)
		if d == nil {
			d = map[string]int{}
		}
		if m.Gone {
			d[m.Frontend]--
		} else {
			d[m.Frontend]++
		}
		if d[m.Frontend] <= 0 {
			delete(d, m.Frontend)
		}
		s.deciders = d
	})
}
