package virtiofs

import (
	"encoding/binary"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// wakeIndex is our own eventfd, where others have the queue's index.
const wakeIndex = -1

// watch lets whoever waits see the queue's kicks. It is edge-triggered: every kick
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

// hand is what a worker takes requests with.
type hand struct {
	c      *conn
	r      *request // that was taken
	next   int      // queue to look at first
	events [4]unix.EpollEvent
}

var _ fuseproto.Source = (*hand)(nil)

// Another implements [fuseproto.Source].
func (h *hand) Another(bool) fuseproto.Source { return &hand{c: h.c, next: h.next} }

// Leave implements [fuseproto.Source].
func (h *hand) Leave() {}

// Take implements [fuseproto.Source]. Whichever queue had its turn has to let the
// others go first.
func (h *hand) Take() (uint64, fuseproto.PoolTaken) {
	c := h.c
	if c.ended.Load() {
		c.wake.signal() // for another one that waits
		return 0, fuseproto.PoolGone
	}
	for range c.queues {
		q := c.queues[h.next]
		h.next = (h.next + 1) % len(c.queues)
		c.world.RLock()
		r, err := q.take(c)
		c.world.RUnlock()
		if err != nil {
			c.broke(q, err)
		}
		if r != nil {
			h.r = r
			return r.header.Unique, fuseproto.TakenRequest(r.header.Opcode)
		}
	}
	return 0, fuseproto.PoolNothing
}

// lazyAfter is how long what is lazy lies there while nothing else comes, in ms.
const lazyAfter = 10

// Wait implements [fuseproto.Source]. Only who waits has the guest kick.
func (h *hand) Wait() {
	if !h.await(true) && !h.kicked(lazyAfter) && !h.await(false) {
		h.kicked(-1)
	}
}

// await tells whether there is something to take in any queue; see [queue.await].
func (h *hand) await(late bool) (there bool) {
	c := h.c
	var calls [4]*eventFD
	told := calls[:0]
	c.world.RLock()
	for _, q := range c.queues {
		more, call := q.await(c, late)
		there = there || more
		if call != nil {
			told = append(told, call)
		}
	}
	c.world.RUnlock()
	for _, call := range told {
		call.signal()
		call.release()
	}
	return there
}

// kicked waits for a kick, at most this many ms unless they are negative, and tells
// whether there is reason to look.
func (h *hand) kicked(ms int) bool {
	c := h.c
	n, err := unix.EpollWait(c.epoll, h.events[:], ms)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		c.server.log.Error("epoll", "component", "virtiofs", "error", err)
		c.ended.Store(true)
		c.close()
	}
	return n != 0
}

// Perform implements [fuseproto.Source].
func (h *hand) Perform() {
	r := h.r
	h.r = nil
	if perform := h.c.admit(r); perform != nil {
		perform(r)
	}
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

// admit counts a request and returns what is to be done with it; nil if it waits
// for room.
func (c *conn) admit(r *request) (next func(*request)) {
	s := c.server
	n := s.inFlight.Add(1)
	switch {
	case r.done:
		return (*request).answer
	case int(n) > s.o.MaxRequests:
		return (*request).refuse
	}
	if r.session == nil {
		r.session = s.sessions.Current()
	}
	if b := s.budgetOf(r); b != nil && !b.take(r, max(r.inLen, r.outLen)) {
		return nil
	}
	return (*request).perform
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
	if !r.readDirectly() {
		r.reply = s.handle(r)
	}
	s.buffers.put(r.in)
	r.in = nil
	r.answer()
}

// readDirectly answers a READ with the data already in the guest's memory, where
// the kernel put it. It tells whether it did; if not, nothing is done.
func (r *request) readDirectly() bool {
	c := r.conn
	if r.header.Opcode != fuseproto.OpRead || r.session == nil || check(r.header, r.in) != 0 || !r.session.enter(r) {
		return false
	}
	defer r.session.leave(r)
	c.world.RLock()
	defer c.world.RUnlock()
	r.q.mu.Lock()
	current := r.life == r.q.life && r.q.running && !r.q.broken
	r.q.mu.Unlock()
	size := int(binary.LittleEndian.Uint32(r.in[fuseproto.HeaderBytes+16:]))
	dst, room := c.memory.pieces(r.out, fuseproto.ReplyBytes, size)
	if !current || !room {
		return false
	}
	n, errno := r.session.handler.ReadInto(r.in, dst)
	r.buf = c.server.buffers.get(fuseproto.ReplyBytes)
	r.reply = fuseproto.Failure(r.buf, r.header, errno)
	if errno == 0 {
		r.direct = n
		binary.LittleEndian.PutUint32(r.reply, uint32(fuseproto.ReplyBytes+n))
	}
	return true
}

// refuse answers that there are too many requests.
func (r *request) refuse() {
	r.buf = make([]byte, min(r.outLen, fuseproto.ReplyBytes))
	r.reply = fuseproto.Failure(r.buf, r.header, syscall.ENOSPC)
	r.answer()
}

// answer gives the reply to the guest. After that the request may belong to
// somebody else.
func (r *request) answer() {
	s, cost, session := r.conn.server, r.cost, r.session
	r.done, r.cost = false, 0
	kept, err := r.finish()
	if session != nil {
		session.handler.Answered()
	}
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
