package control

import (
	"context"
	"encoding/json"
	"os"
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
	files   []*os.File // that came with it
	ctx     context.Context
	release func() // once, when it is answered
}

// Fail answers it: the actor is not there.
func (m *incoming) Fail(err error) { m.done(nil, err) }

// done answers it without a handler.
func (m *incoming) done(result any, err error) {
	go func() { // it may wait for the client to read
		defer m.release()
		closeFiles(m.files)
		m.c.answer(m.req.ID, result, err)
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
		if m.req.Method == MethodCancel {
			m.done(p.cancel(m.req.Params))
			return
		}
		ctx, cancel := context.WithCancel(m.ctx)
		p.calls[m] = cancel
		go func() {
			defer m.release()
			m.c.handle(ctx, m.req, m.files)
			p.tell(&ended{m})
		}()
	case *ended:
		if cancel := p.calls[m.m]; cancel != nil {
			cancel()
			delete(p.calls, m.m)
		}
	}
}

// cancel ends the context of a call. That it has its answer already is no error.
func (p *peer) cancel(params json.RawMessage) (any, error) {
	var c cancelParams
	if err := json.Unmarshal(params, &c); err != nil {
		return nil, &Error{Code: CodeBadRequest, Message: "parameters: " + err.Error()}
	}
	for m, cancel := range p.calls {
		if m.req.ID == c.ID {
			cancel()
		}
	}
	return struct{}{}, nil
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
