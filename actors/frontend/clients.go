package frontend

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages/logctx"
)

// maxActors is how many sessions a connection may have an actor in. A connection of a proxy asks about many, one after the other.
const maxActors = 16

// Clients are the HTTP connections of a frontend. Each has an actor in each session that it asks something of, as long as it lasts. Make it with [NewClients]; its methods are safe for concurrent use.
type Clients struct {
	name  string
	conns sync.Map // *Client, by its net.Conn
	calls atomic.Uint64
}

// NewClients makes those of a frontend, whose name stands in the tree of actors, and in the ids of calls.
func NewClients(name string) *Clients { return &Clients{name: name} }

// Client is one HTTP connection. Its methods are safe for concurrent use.
type Client struct {
	// In is how many bytes of bodies have come.
	In atomic.Int64

	name     string
	conn     net.Conn
	inFlight atomic.Int64 // calls

	mu     sync.Mutex
	gone   bool
	actors map[string]*Connection // by the id of the session
}

type clientKey struct{}

// Connected makes the client of a new connection: it is what [http.Server] calls ConnContext.
func (c *Clients) Connected(ctx context.Context, conn net.Conn) context.Context {
	one := &Client{name: c.name, conn: conn, actors: map[string]*Connection{}}
	c.conns.Store(conn, one)
	return context.WithValue(ctx, clientKey{}, one)
}

// State hears of the end of connections: it is what [http.Server] calls ConnState.
func (c *Clients) State(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if one, ok := c.conns.LoadAndDelete(conn); ok {
		one.(*Client).leave()
	}
}

// Len is how many connections there are.
func (c *Clients) Len() (n int) {
	c.conns.Range(func(any, any) bool { n++; return true })
	return n
}

// ClientOf is the connection that a request has come by; nil in a test without one.
func ClientOf(r *http.Request) *Client {
	c, _ := r.Context().Value(clientKey{}).(*Client)
	return c
}

// leave takes the connection out of all sessions.
func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, a := range c.actors {
		a.Detach()
	}
	clear(c.actors)
}

// join returns the connection's actor in a session.
func (c *Client) join(ctx context.Context, live api.Live) (*Connection, error) {
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
	a, err := Connect(ctx, live, ConnectionOptions{
		Name:    c.name,
		Figures: func() api.Figures { return api.Figures{InFlight: int(c.inFlight.Load()), In: c.In.Load()} },
		Crashed: func(error) { go c.conn.Close() },
	})
	if err == nil {
		c.actors[live.ID()] = a
	}
	return a, err
}

// Begin says that a call is carried out in a session, and gives it an id. Its context ends with end, with the request, and when the connection's actor crashes.
func (c *Clients) Begin(r *http.Request, live api.Live) (ctx context.Context, id string, end func(), err error) {
	id = fmt.Sprintf("%s-%d", c.name, c.calls.Add(1))
	ctx, cancel := context.WithCancelCause(logctx.With(r.Context(), logctx.Fields{RequestID: id}))
	one := ClientOf(r)
	if one == nil {
		return ctx, id, func() { cancel(nil) }, nil
	}
	a, err := one.join(ctx, live)
	if err != nil {
		cancel(nil)
		return nil, "", nil, err
	}
	one.inFlight.Add(1)
	a.Begin(id, func(cause error) { cancel(cause) })
	return ctx, id, func() {
		a.End(id)
		one.inFlight.Add(-1)
		cancel(nil)
	}, nil
}
