package mediate

import (
	"github.com/codeagent/sandbox/fsbridge"
)

// hooks stand between a tree and the Interceptor. What the Interceptor does on the
// thread is not the caller's business, so it has no umask then; the operation itself
// has the caller's. (To mask modes ourselves would be wrong in a directory with a default
// access list.)
type hooks struct {
	s     *Server
	inner fsbridge.Interceptor // or nil
}

var _ fsbridge.Interceptor = (*hooks)(nil)

// Begin implements [fsbridge.Interceptor].
func (h *hooks) Begin(op *fsbridge.Op) (t fsbridge.Ticket, err error) {
	c := h.s.asked(op.Request)
	if h.inner != nil {
		if c != nil {
			h.s.asks(c, true)
		}
		t, err = h.inner.Begin(op)
		if c != nil {
			h.s.asks(c, false)
		}
	}
	if err == nil && c != nil && c.masksFor(op) {
		setThreadUmask(c.umask)
	}
	return t, err
}

// End implements [fsbridge.Interceptor].
func (h *hooks) End(t fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	if c := h.s.asked(op.Request); c != nil && c.masksFor(op) {
		setThreadUmask(0)
	}
	if h.inner != nil {
		h.inner.End(t, op, created, err)
	}
}

// masksFor tells whether op makes something, for which the caller has a umask.
func (c *call) masksFor(op *fsbridge.Op) bool {
	return c.umask != 0 && op.Kind != fsbridge.OpWrite && op.Kind != fsbridge.OpTruncate
}
