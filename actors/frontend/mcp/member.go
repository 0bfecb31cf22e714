package mcp

import (
	"context"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// member is a client's place in the session: its actor there. Its methods are safe for concurrent use.
type member struct {
	// session is the one that calls work on, or nil; the function may be nil.
	session func() api.Live
	figures func() api.Figures
	// crashed is called when the actor has crashed. It must not block.
	crashed func(error)

	mu     sync.Mutex
	actor  *frontend.Connection
	joined string // the id of the session that it is in
}

// join returns the client's actor in the session that there is now, or nil.
func (m *member) join(ctx context.Context) *frontend.Connection {
	if m.session == nil {
		return nil
	}
	live, id := m.session(), ""
	if live != nil {
		id = live.ID()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == m.joined {
		return m.actor
	}
	m.actor.Detach()
	m.actor, m.joined = nil, id
	if live == nil {
		return nil
	}
	actor, err := frontend.Connect(ctx, live, frontend.ConnectionOptions{Name: "mcp", Figures: m.figures, Crashed: m.crashed})
	if err != nil {
		m.joined = "" // it has ended, as the next session will not have
		return nil
	}
	m.actor = actor
	return actor
}

// end reports that a call has ended.
func (m *member) end(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actor.End(id)
}

// leave takes the client out of its session.
func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actor.Detach()
}
