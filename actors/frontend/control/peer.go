package control

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// name is what the connections are called in the tree.
const name = "control-socket"

// figures are what a connection shows; they outlive its actor's instances.
type figures struct {
	inFlight atomic.Int64
	in, out  atomic.Int64
}

func (f *figures) show() api.Figures {
	return api.Figures{InFlight: int(f.inFlight.Load()), In: f.in.Load(), Out: f.out.Load()}
}

// incoming is one request, and the message that begins it.
type incoming struct {
	c       *connection
	req     Request
	ctx     context.Context
	release func() // once, when it is answered
}

// Fail answers it: the actor is not there.
func (m *incoming) Fail(err error) {
	go func() { // it may wait for the client to read
		defer m.release()
		m.c.answer(m.req.ID, nil, err)
	}()
}

// ended says that a call was answered.
type ended struct{ m *incoming }

// peer is the state of a connection's actor: the calls that are in flight.
type peer struct {
	tell  func(any)
	calls map[*incoming]context.CancelFunc
}

var _ api.Connection = (*peer)(nil)

// Receive implements [api.Connection].
func (p *peer) Receive(msg any) {
	switch m := msg.(type) {
	case *incoming:
		ctx, cancel := context.WithCancel(m.ctx)
		p.calls[m] = cancel
		go func() {
			defer m.release()
			m.c.handle(ctx, m.req)
			p.tell(&ended{m})
		}()
	case *ended:
		if cancel := p.calls[m.m]; cancel != nil {
			cancel()
			delete(p.calls, m.m)
		}
	}
}

// Release implements [api.Connection]. What is in flight when the session ends is
// answered yet; the server sees to that.
func (p *peer) Release(cause error) {
	if cause != messages.ErrCrashed {
		return
	}
	for _, cancel := range p.calls {
		cancel()
	}
}

// attach gives the connection an actor.
func (c *connection) attach(ctx context.Context) (api.Attachment, error) {
	f := api.Frontend{
		Name: name, Figures: c.figures.show, Stopped: func(err error) {
			if err == messages.ErrCrashed {
				_ = c.conn.Close()
			}
		},
		New: func(tell func(any)) api.Connection { return &peer{tell, map[*incoming]context.CancelFunc{}} },
	}
	if c.s.o.Attach == nil {
		a := &alone{}
		a.state = f.New(a.Tell)
		return a, nil
	}
	return c.s.o.Attach(ctx, f)
}

// alone stands in for the actor where there is no session.
type alone struct {
	mu    sync.Mutex
	state api.Connection
}

func (a *alone) Tell(msg any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Receive(msg)
}

func (a *alone) Detach() {}
