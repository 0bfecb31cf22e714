package vfs

import "sync"

// heldUps knows the directories in which an operation waits for somebody's decision.
// The kernel has them locked until it is answered, so it cannot be told of a name
// there; who tells it waits, in a way that not even the end of the process ends.
type heldUps struct {
	mu  sync.Mutex
	ops map[uint64]*mutation // that may come to be held, by request
}

// enter is called before an Interceptor is asked.
func (h *heldUps) enter(m *mutation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ops == nil {
		h.ops = make(map[uint64]*mutation)
	}
	h.ops[m.op.Request] = m
}

// leave is called when it has answered.
func (h *heldUps) leave(m *mutation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ops, m.op.Request)
	if m.held {
		m.held = false
		m.countHeld(-1)
	}
}

// hold says that the operation of this request is held. It may have been answered.
func (h *heldUps) hold(request uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.ops[request]; m != nil && !m.held {
		m.held = true
		m.countHeld(1)
	}
}

func (m *mutation) countHeld(n int32) {
	for _, d := range m.dirs {
		if d != nil {
			d.Node.held.Add(n)
		}
	}
}
