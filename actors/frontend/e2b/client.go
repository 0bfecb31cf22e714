package e2b

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/messages/logctx"
)

// client is one HTTP connection. Its methods are safe for concurrent use.
type client struct {
	conn     net.Conn
	in       atomic.Int64 // bytes of bodies
	inFlight atomic.Int64 // calls

	mu     sync.Mutex
	gone   bool
	actors map[string]*frontend.Connection // by the id of the session
}

type clientKey struct{}

// connected makes the client of a new connection.
func (s *Server) connected(ctx context.Context, conn net.Conn) context.Context {
	c := &client{conn: conn, actors: map[string]*frontend.Connection{}}
	s.clients.Store(conn, c)
	return context.WithValue(ctx, clientKey{}, c)
}

// connection hears of the end of connections.
func (s *Server) connection(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if c, ok := s.clients.LoadAndDelete(conn); ok {
		c.(*client).leave()
	}
}

// clientOf is the connection that a request has come by; nil in a test without one.
func clientOf(r *http.Request) *client {
	c, _ := r.Context().Value(clientKey{}).(*client)
	return c
}

// leave takes the connection out of all sessions.
func (c *client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, a := range c.actors {
		a.Detach()
	}
	clear(c.actors)
}

// maxActors is how many sessions a connection may have an actor in. A connection of a proxy asks about many, one after the other.
const maxActors = 16

// join returns the connection's actor in a session.
func (c *client) join(ctx context.Context, live api.Live) (*frontend.Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.actors[live.ID()]; a != nil || c.gone {
		return a, nil
	}
	if len(c.actors) >= maxActors {
		for id, a := range c.actors {
			a.Detach()
			delete(c.actors, id)
			break
		}
	}
	a, err := frontend.Connect(ctx, live, frontend.ConnectionOptions{
		Name:    frontendName,
		Figures: func() api.Figures { return api.Figures{InFlight: int(c.inFlight.Load()), In: c.in.Load()} },
		Crashed: func(error) { go c.conn.Close() },
	})
	if err == nil {
		c.actors[live.ID()] = a
	}
	return a, err
}

// frontendName is what we are called in events, logs and the tree of actors.
const frontendName = "e2b"

// begin says that a call is carried out in a session. Its context ends with end, with the request, and when the connection's actor crashes.
func (s *Server) begin(r *http.Request, live api.Live) (ctx context.Context, id string, end func(), err error) {
	id = s.number()
	ctx, cancel := context.WithCancelCause(logctx.With(r.Context(), logctx.Fields{RequestID: id}))
	c := clientOf(r)
	if c == nil {
		return ctx, id, func() { cancel(nil) }, nil
	}
	a, err := c.join(ctx, live)
	if err != nil {
		cancel(nil)
		return nil, "", nil, err
	}
	c.inFlight.Add(1)
	a.Begin(id, func(cause error) { cancel(cause) })
	return ctx, id, func() {
		a.End(id)
		c.inFlight.Add(-1)
		cancel(nil)
	}, nil
}

// origin is who asks, for events, logs and the audit.
func origin(id, tool string) api.Origin {
	return api.Origin{Frontend: frontendName, RequestID: id, Tool: tool}
}

// ended tells whether a session is over.
func ended(live api.Live) bool {
	select {
	case <-live.Done():
		return true
	default:
		return false
	}
}
