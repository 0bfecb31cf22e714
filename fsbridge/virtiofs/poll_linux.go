package virtiofs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	bridge "github.com/codeagent/sandbox/fsbridge/fuse"
)

// wakeIndex is the poller's own eventfd, where others have the queue's index.
const wakeIndex = -1

// watch lets the poller see the queue's kicks. It is edge-triggered: every kick
// is an event, and the counter is never read. So the descriptor, which QEMU
// reads itself while the ring is stopped, is left as it is.
func (c *conn) watch(q *queue) error {
	return unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, q.kick.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(q.index)})
}

func (c *conn) unwatch(q *queue) {
	if q.kick != nil {
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, q.kick.fd, nil)
	}
}

// poll takes requests off the queues until the connection ends. A queue that
// has more than a round's worth has to let the others go first.
func (c *conn) poll() {
	ready := make([]bool, len(c.queues))
	events := make([]unix.EpollEvent, 16)
	left := 0
	for !c.ended.Load() {
		timeout := -1
		if left > 0 {
			timeout = 0
		}
		n, err := unix.EpollWait(c.epoll, events, timeout)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			c.server.log.Error("epoll", "component", "virtiofs", "error", err)
			c.close()
			return
		}
		for i := range max(n, 0) {
			if at := events[i].Fd; at >= 0 {
				ready[at] = true
				continue
			}
			for i := range ready {
				ready[i] = true
			}
		}
		left = 0
		for i, r := range ready {
			if r {
				if ready[i] = c.drain(c.queues[i]); ready[i] {
					left++
				}
			}
		}
	}
}

// drain starts one round of a queue's requests and tells whether there are
// more.
func (c *conn) drain(q *queue) (more bool) {
	c.world.RLock()
	taken, more, err := q.take(c)
	c.world.RUnlock()
	for _, r := range taken {
		c.begin(r)
	}
	if err != nil {
		c.broke(q, err)
	}
	return more
}

// broke ends the service of a queue that the guest broke.
func (c *conn) broke(q *queue, err error) {
	c.world.RLock()
	q.mu.Lock()
	again := q.broken
	q.broken = true
	q.mu.Unlock()
	e := q.err
	if e != nil && !e.acquire() {
		e = nil
	}
	c.world.RUnlock()
	if e != nil {
		e.signal()
		e.release()
	}
	if !again {
		c.server.log.Warn("virtqueue broken: it is not served until the guest resets it", "component", "virtiofs", "queue", q.index, "error", err)
	}
}

// begin starts a request, or leaves it waiting for room.
func (c *conn) begin(r *request) {
	s := c.server
	n := s.inFlight.Add(1)
	switch {
	case r.done:
		go r.answer(0)
		return
	case int(n) > s.o.MaxRequests:
		go r.refuse()
		return
	}
	if r.session == nil {
		r.session = s.session()
	}
	if r.inLen <= largeBytes && (bridge.Silent(r.header.opcode) || r.header.opcode == opInterrupt) {
		r.perform() // which waits for nothing
		return
	}
	if b := s.budgetOf(r); b != nil && !b.take(r, max(r.inLen, r.outLen)) {
		return
	}
	go r.perform()
}

// perform does all of a request.
func (r *request) perform() {
	s, cost := r.conn.server, r.cost
	ok, err := r.fetch()
	if err != nil {
		r.conn.broke(r.q, err)
	}
	if !ok {
		s.left(r, cost)
		return
	}
	r.reply = s.handle(r)
	s.buffers.put(r.in)
	r.in = nil
	r.answer(cost)
}

// refuse answers that there are too many requests.
func (r *request) refuse() {
	r.buf = make([]byte, min(r.outLen, replyBytes))
	r.reply = failure(r.buf, r.header, syscall.ENOSPC)
	r.answer(0)
}

// answer gives the reply to the guest. cost is what the request has of the
// budget.
func (r *request) answer(cost int) {
	r.done = false
	s := r.conn.server
	kept, err := r.finish()
	if err != nil {
		r.conn.broke(r.q, err)
	}
	if !kept {
		s.buffers.put(r.buf)
	}
	s.left(r, cost)
}

// left takes back what the request had, so that others can go on. The request
// may belong to somebody else by now.
func (s *Server) left(r *request, cost int) {
	s.inFlight.Add(-1)
	if cost == 0 {
		return
	}
	for _, next := range s.budgetOf(r).give(cost) {
		go next.perform()
	}
}

// budgetOf returns the budget that a request takes from, nil for small ones.
func (s *Server) budgetOf(r *request) *budget {
	switch {
	case r.inLen > largeBytes:
		return &s.large[0]
	case r.outLen > largeBytes:
		return &s.large[1]
	}
	return nil
}
