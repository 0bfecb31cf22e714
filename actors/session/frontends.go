package session

import (
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// FrontendsOptions make [Frontends].
type FrontendsOptions struct {
	// Spawn makes the properties of the connection of that name, which is
	// relative to this actor's. crashed is called when the connection's actor
	// panics.
	Spawn func(name string, crashed func(any), produce func(*supervision.Node) actor.Actor) *actor.Props
	// Forget takes a connection that has ended out of the tree.
	Forget func(name string)
	// Count numbers the connections; it outlives restarts.
	Count  *atomic.Uint64
	Logger *slog.Logger
}

// Attach spawns a connection's actor.
type Attach struct {
	Frontend api.Frontend
	Reply    *messages.Reply[api.Attachment]
}

// Fail answers whoever waits.
func (m *Attach) Fail(err error) { m.Reply.Fail(err) }

// Frontends is the parent of the actors of connections.
type Frontends struct{ o FrontendsOptions }

// NewFrontends makes a fresh instance.
func NewFrontends(o FrontendsOptions) *Frontends { return &Frontends{o} }

// Receive implements [actor.Actor].
func (f *Frontends) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
	case *Attach:
		f.attach(ctx, m)
	default:
		f.o.Logger.Error("unknown message", "component", "session", "type", fmt.Sprintf("%T", m))
	}
}

func (f *Frontends) attach(ctx actor.Context, m *Attach) {
	name := m.Frontend.Name + "/" + strconv.FormatUint(f.o.Count.Add(1), 10)
	a := &attachment{root: ctx.ActorSystem().Root}
	props := f.o.Spawn(name, func(any) { a.crashed.Store(true) }, func(n *supervision.Node) actor.Actor {
		return &connection{f: m.Frontend, a: a, node: n, forget: func() { f.o.Forget(name) }}
	})
	pid, err := ctx.SpawnNamed(props, name)
	if err != nil {
		m.Reply.Fail(fmt.Errorf("spawn %s: %w", name, err))
		return
	}
	a.pid = pid
	if !m.Reply.Send(a, nil) { // nobody waits for it any more
		a.Detach()
	}
}

// attachment is a connection's actor as its frontend sees it.
type attachment struct {
	root     *actor.RootContext
	pid      *actor.PID
	detached atomic.Bool
	crashed  atomic.Bool // and has not begun again
}

// Tell implements [api.Attachment].
func (a *attachment) Tell(msg any) { a.root.Send(a.pid, msg) }

// Detach implements [api.Attachment].
func (a *attachment) Detach() {
	if a.detached.CompareAndSwap(false, true) {
		a.root.Poison(a.pid)
	}
}

// connection is the actor of one connection; what it does is its frontend's.
type connection struct {
	f      api.Frontend
	a      *attachment
	node   *supervision.Node
	forget func()
	state  api.Connection
}

// Receive implements [actor.Actor].
func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		self, root := ctx.Self(), ctx.ActorSystem().Root
		c.node.SetState("open")
		c.node.SetLive(c.show)
		c.state = c.f.New(func(m any) { root.Send(self, m) })
		c.a.crashed.Store(false)
	case *actor.Restarting:
		c.release(messages.ErrCrashed)
	case *actor.Stopping:
		c.node.SetState("closing")
		c.release(c.cause())
	case *actor.Stopped:
		c.forget()
		if f, cause := c.f.Stopped, c.cause(); f != nil {
			go f(cause)
		}
	case *actor.Terminated:
	default:
		c.state.Receive(m)
	}
}

// cause is why the actor stops.
func (c *connection) cause() error {
	switch {
	case c.a.crashed.Load():
		return messages.ErrCrashed
	case c.a.detached.Load():
		return nil
	}
	return messages.ErrStopped
}

func (c *connection) release(cause error) {
	if s := c.state; s != nil {
		c.state = nil
		s.Release(cause)
	}
}

// show adds the connection's figures to the tree.
func (c *connection) show(s *supervision.Snapshot) {
	if c.f.Figures == nil {
		return
	}
	f := c.f.Figures()
	if f.State != "" {
		s.State = f.State
	}
	s.Facts = map[string]string{
		"queue": strconv.Itoa(f.Queue), "in_flight": strconv.Itoa(f.InFlight),
		"bytes_in": strconv.FormatInt(f.In, 10), "bytes_out": strconv.FormatInt(f.Out, 10),
	}
}
