package frontend

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// Connection is the handle of a connection's actor in one session. The actor
// knows the calls that are carried out: each runs on a goroutine of its own, is
// reported when it begins and when it ends, and is cancelled when the actor
// crashes. Receive never blocks.
//
// Methods are safe for concurrent use and do not block; those of a nil
// Connection do nothing, for a client that is in no session.
type Connection struct {
	at api.Attachment
	// begun is how many calls the actor knows; it outlives restarts.
	begun atomic.Int64
}

// ConnectionOptions describe a connection to [Connect].
type ConnectionOptions struct {
	// Name is "stdio" or "mcp".
	Name string
	// Figures tells of all calls without their answer (InFlight) and of bytes; the
	// calls that have not begun are the queue. It must not block.
	Figures func() api.Figures
	// Crashed is called when the actor has crashed and its calls are cancelled. It
	// ends the connection and must not block.
	Crashed func(error)
}

// Connect gives a connection its actor in a session, until Detach is called or
// the session ends. ctx bounds the wait for it. The error is
// [messages.ErrStopped] when the session has ended.
func Connect(ctx context.Context, session api.Frontends, o ConnectionOptions) (*Connection, error) {
	c := &Connection{}
	at, err := session.Attach(ctx, api.Frontend{
		Name: o.Name,
		New: func(func(any)) api.Connection {
			return &connection{c: c, crashed: o.Crashed, calls: map[string]func(error){}}
		},
		Figures: func() api.Figures {
			f := o.Figures()
			begun := min(int(c.begun.Load()), f.InFlight)
			f.Queue, f.InFlight = f.InFlight-begun, begun
			return f
		},
	})
	if err != nil {
		return nil, err
	}
	c.at = at
	return c, nil
}

// Begin says that a call is carried out from now on. cancel ends it early and
// must not block; it is nil where the connection's end does that.
func (c *Connection) Begin(id string, cancel func(error)) {
	if c != nil {
		c.at.Tell(&begin{id, cancel})
	}
}

// End says that a call has ended, or that there is no such call any more.
func (c *Connection) End(id string) {
	if c != nil {
		c.at.Tell(&end{id})
	}
}

// Detach takes the connection out of the session.
func (c *Connection) Detach() {
	if c != nil {
		c.at.Detach()
	}
}

// begin and end are what the actor is told of calls.
type (
	begin struct {
		id     string
		cancel func(error)
	}
	end struct{ id string }
)

// Fail cancels the call: the actor crashed over it. When the session has ended
// the call hears that from the session.
func (m *begin) Fail(err error) {
	if errors.Is(err, messages.ErrCrashed) && m.cancel != nil {
		m.cancel(err)
	}
}

// connection is the actor's state.
type connection struct {
	c       *Connection
	crashed func(error)
	calls   map[string]func(error)
}

// Receive implements [api.Connection].
func (s *connection) Receive(msg any) {
	switch m := msg.(type) {
	case *begin:
		s.calls[m.id] = m.cancel
	case *end:
		delete(s.calls, m.id)
	default:
		panic("frontend: a connection got a message that it does not know")
	}
	s.c.begun.Store(int64(len(s.calls)))
}

// Release implements [api.Connection].
func (s *connection) Release(cause error) {
	s.c.begun.Store(0)
	if !errors.Is(cause, messages.ErrCrashed) {
		return // the session answers what is in flight, or the frontend does
	}
	for _, cancel := range s.calls {
		if cancel != nil {
			cancel(cause)
		}
	}
	s.crashed(cause)
}
