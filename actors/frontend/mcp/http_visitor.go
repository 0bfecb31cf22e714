package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

// visitor is a client over HTTP: a session of the SDK's, which lasts from one request to another.
type visitor struct {
	h      *HTTP
	key    web.Key
	client *sdk.ServerSession
	member member
	// ctx is that of its calls.
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex // may be taken with HTTP.mu held
	calls int        // without their answer
	bytes int        // of these
	open  int        // requests
	in    int64      // bytes of calls, ever
	gone  bool
	timer func() bool // stops the wait for its next request
	since time.Time   // when that began
	rests int         // how often it did
}

// welcome makes a client of who initializes a session.
func (h *HTTP) welcome(ctx context.Context, client *sdk.ServerSession, key web.Key) error {
	v := &visitor{h: h, key: key, client: client}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.member = member{session: h.server.o.Session, figures: v.figures, crashed: func(error) { go v.end() }}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		v.cancel()
		return errors.New("the server ends")
	}
	h.clients[client.ID()] = v
	h.wg.Add(1)
	h.mu.Unlock()
	forget := h.server.known(client)
	v.member.join(ctx)
	v.rest()
	h.server.log.Info("MCP client connected", "transport", "http")
	go func() {
		defer h.wg.Done()
		err := client.Wait()
		h.mu.Lock()
		delete(h.clients, client.ID())
		h.mu.Unlock()
		v.left()
		forget()
		h.server.log.Info("MCP client gone", "transport", "http", "err", err)
	}()
	return nil
}

// end ends the client's session, after its calls, which are cancelled.
func (v *visitor) end() {
	v.cancel()
	_ = v.client.Close() // who waits hears the error
}

// left ends what is left of a client whose session has ended.
func (v *visitor) left() {
	v.cancel()
	v.member.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = true
	if v.timer != nil {
		v.timer()
	}
}

// asks says that a request has come; the result is called at its end.
func (v *visitor) asks() (done func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open++
	if v.timer != nil {
		v.timer()
		v.timer = nil
	}
	return func() {
		v.mu.Lock()
		v.open--
		v.mu.Unlock()
		v.rest()
	}
}

// rest waits for the client's next request, for as long as it may ask nothing.
func (v *visitor) rest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open > 0 || v.calls > 0 || v.gone || v.timer != nil {
		return
	}
	v.since = v.h.server.clock.Now()
	v.rests++
	now := v.rests
	v.timer = v.h.server.clock.AfterFunc(v.h.o.Idle, func() {
		v.mu.Lock()
		late := v.timer == nil || v.rests != now // it has asked meanwhile
		v.mu.Unlock()
		if late {
			return
		}
		v.h.server.log.Info("an MCP client has asked nothing for too long", "transport", "http")
		go v.end()
	})
}

// idle says since when the client has asked nothing, if it has nothing under way.
func (v *visitor) idle() (since time.Time, idle bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.since, v.timer != nil
}

// admit takes a call in, unless there are too many.
func (v *visitor) admit(size int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.calls >= MaxCalls || v.bytes+size > maxCallBytes {
		return false
	}
	v.calls++
	v.bytes += size
	v.in += int64(size)
	return true
}

// release lets a call go that was admitted.
func (v *visitor) release(size int) {
	v.mu.Lock()
	v.calls--
	v.bytes -= size
	v.mu.Unlock()
	v.rest()
}

// figures are what the actor shows. What is answered goes out through the SDK, which does not count it.
func (v *visitor) figures() api.Figures {
	v.mu.Lock()
	defer v.mu.Unlock()
	return api.Figures{InFlight: v.calls, In: v.in}
}
