package network

import (
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/waiter"
)

// streams says which TCP flows have large buffers ([Limits.Stream]) in place of
// ordinary ones. Each wait of one end for the other costs more than the copying of a
// segment: with large buffers there are fewer. What the flows of a hostile guest hold is
// bounded as the number of places is.
type streams struct {
	ordinary, large int64 // bytes of a flow's buffer
	places          int   // in each direction; 0: there are none

	mu   sync.Mutex
	down map[*guestConn]bool // have a place towards the guest; true: end, and keep it until then
	up   int                 // places taken from the guest
}

// begin gives a new flow ordinary buffers. The stack knows by then how large those may
// become, and has told the guest by which power of two its windows count.
func (s *streams) begin(ep tcpip.Endpoint) {
	if s.places > 0 {
		ep.SocketOptions().SetReceiveBufferSize(s.ordinary, true)
		setSendBuffer(ep, s.ordinary)
	}
}

// takeDown tells whether the flow has a place towards the guest, and takes one if it has
// not, if need be from a flow that does not use it.
func (s *streams) takeDown(g *guestConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.down[g]; ok {
		return true
	}
	if len(s.down) >= s.places && !s.vacate() {
		return false
	}
	if s.down == nil {
		s.down = map[*guestConn]bool{}
	}
	s.down[g] = false
	setSendBuffer(g.ep, s.large)
	return true
}

// vacate takes a place from a flow that has no more under way than an ordinary buffer
// holds. As the stack looks at the size of a buffer and adds to it under one lock, no write
// slips through between the two lines.
func (s *streams) vacate() bool {
	for g, ending := range s.down {
		if ending {
			continue
		}
		setSendBuffer(g.ep, s.ordinary)
		if g.room() {
			delete(s.down, g)
			return true
		}
		setSendBuffer(g.ep, s.large)
	}
	return false
}

// ending has a flow keep the place that it may have until [streams.leaveDown].
func (s *streams) ending(g *guestConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.down[g]; ok {
		s.down[g] = true
	}
}

// leaveDown gives a flow's place towards the guest back, if it has one.
func (s *streams) leaveDown(g *guestConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.down, g)
}

// takeUp gives a flow a place from the guest, if there is one. The flow keeps it to its
// end: what the guest was told that it may send cannot be taken back.
func (s *streams) takeUp(g *guestConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up >= s.places {
		return false
	}
	s.up++
	g.ep.SocketOptions().SetReceiveBufferSize(s.large, true)
	return true
}

// leaveUp gives it back.
func (s *streams) leaveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up--
}

// setSendBuffer sets how much the buffer towards the guest may hold. The stack itself may
// be about to write the size down that it read a moment ago; it holds the endpoint's lock
// meanwhile, which the call takes after it has set ours.
func setSendBuffer(ep tcpip.Endpoint, size int64) {
	o := ep.SocketOptions()
	for set := false; !set; set = o.GetSendBufferSize() == size {
		o.SetSendBufferSize(size, true)
	}
}

// room tells whether something fits into the buffer towards the guest, or nothing will
// ever again.
func (g *guestConn) room() bool {
	return g.ep.Readiness(waiter.WritableEvents)&waiter.WritableEvents != 0 // it tells of more than it is asked for
}

// drain waits until the guest has taken everything, or is gone. Without it a flow would
// end, and count no more, while a guest that does not read has us keep its buffer.
func (g *guestConn) drain() {
	// The stack says that there is room when what is left is less than half of the buffer.
	const empty = 2
	entry, changed := waiter.NewChannelEntry(waiter.WritableEvents)
	g.wq.EventRegister(&entry)
	defer g.wq.EventUnregister(&entry)
	setSendBuffer(g.ep, empty)
	for !g.room() {
		<-changed
	}
}
