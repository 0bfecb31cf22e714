package session

import (
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

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

// Child is an actor to spawn.
type Child struct {
	Name  string
	Props *actor.Props
}

// Options make an [Actor].
type Options struct {
	Children []Child
	Node     *supervision.Node
	Logger   *slog.Logger
	// Changed hears of every change of state; it must not block. It may be nil.
	Changed func(State, string)
}

// Move asks for another state. The reply's error says that it cannot be reached
// from here.
type Move struct {
	To     State
	Reason string
	Reply  *messages.Reply[State]
}

// Ready is answered when the children are spawned, with the state.
type Ready struct{ Reply *messages.Reply[State] }

// Fail answers whoever waits.
func (m *Move) Fail(err error)  { m.Reply.Fail(err) }
func (m *Ready) Fail(err error) { m.Reply.Fail(err) }

// Actor is a session or a directory.
type Actor struct {
	o     Options
	state State
	err   error
}

// New makes a fresh instance.
func New(o Options) *Actor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Actor{o: o, state: Idle}
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		for _, c := range a.o.Children {
			if _, err := ctx.SpawnNamed(c.Props, c.Name); err != nil {
				a.err = fmt.Errorf("spawn %s: %w", c.Name, err)
				a.o.Logger.Error("actor not spawned", "component", "session", "actor", c.Name, "err", err)
			}
		}
		a.o.Node.SetState(string(a.state))
	case *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
	case *Ready:
		m.Reply.Send(a.state, a.err)
	case *Move:
		m.Reply.Send(a.state, a.move(m))
	default:
		a.o.Logger.Error("unknown message", "component", "session", "type", fmt.Sprintf("%T", m))
	}
}

func (a *Actor) move(m *Move) error {
	for _, to := range next[a.state] {
		if to == m.To {
			a.state = to
			a.o.Node.SetState(string(to))
			a.o.Logger.Info("session state", "component", "session", "state", string(to), "reason", m.Reason)
			if a.o.Changed != nil {
				a.o.Changed(to, m.Reason)
			}
			return nil
		}
	}
	return fmt.Errorf("session is %s and cannot become %s", a.state, m.To)
}
