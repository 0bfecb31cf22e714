package virtiofs

import (
	"errors"
	"fmt"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// queue is one virtqueue of a connection. What the front-end configures changes
// under conn.world held exclusively; the rest also under world held shared and
// mu.
type queue struct {
	index int

	num     int
	addr    ringAddr
	base    uint16
	enabled bool
	kick    *eventFD // nil: the ring is stopped
	call    *eventFD
	err     *eventFD

	mu      sync.Mutex
	running bool
	broken  bool
	ring    ring
	table   []byte // room for an indirect table

	// life is what requests belong to: it ends when the guest resets the ring.
	life      uint64
	inFlight  int
	lastAvail uint16 // next to take
	usedIdx   uint16 // next to give back
	signalled uint16 // usedIdx when the guest was last called
	valid     bool   // signalled is
	waiting   []*request
	owed      int // given back since the guest was last told, or had to be
}

// request is a chain of descriptors that the guest gave us.
type request struct {
	chain
	conn *conn
	q    *queue
	life uint64
	head uint16

	few     [6]segment       // room for the chain, usually
	header  fuseproto.Header // of FUSE, copied when it was taken
	session *session         // nil: none when it was taken
	cost    int              // bytes of the budget that it holds
	in      []byte           // its own copy
	reply   []byte           // in buf
	buf     []byte
	direct  int  // bytes after the reply that are in the guest's memory already
	done    bool // reply is there
}

// smallBytes is the size up to which a request is copied when it is taken.
const smallBytes = 512

// errFull: more in flight than there are descriptors.
var errFull = errors.New("more requests in flight than descriptors")

// start makes the ring run if everything is there. The caller holds world
// exclusively. A ring that goes on where it was stopped keeps its requests.
func (q *queue) start(c *conn) error {
	if q.running || q.broken || q.kick == nil || !q.enabled || q.num == 0 || q.addr == (ringAddr{}) {
		return nil
	}
	return guarded(func() error {
		r, err := openRing(&c.memory, q.num, q.addr)
		if err != nil {
			return err
		}
		used := r.usedIdx()
		if q.base != q.lastAvail || used != q.usedIdx {
			// Not the ring that was stopped: with requests in flight the two
			// indexes differ, and in a new ring they do not.
			q.reset()
			q.lastAvail, q.usedIdx = q.base, used
		}
		q.ring, q.valid = r, false
		if len(q.table) != q.num*descBytes {
			q.table = make([]byte, q.num*descBytes)
		}
		q.running = true
		return nil
	})
}

// reset forgets the requests: their answers will be thrown away.
func (q *queue) reset() {
	q.life++
	q.inFlight, q.owed = 0, 0
	q.waiting = nil
}

// stop ends service. The caller holds world exclusively, so that nobody touches
// the ring or the buffers of a request any more.
func (q *queue) stop() {
	q.halt()
	q.ring = ring{}
	q.kick.close()
	q.kick = nil
}

// halt makes the ring wait where it is. Nobody will tell the guest later of what it
// was given back.
func (q *queue) halt() {
	q.running = false
	q.base = q.lastAvail
	if q.owed > 0 {
		q.owed = 0
		q.call.signal()
	}
}

// take returns the next chain that the guest made available, nil if there is none.
// The caller holds world shared and breaks the queue after an error.
func (q *queue) take(c *conn) (r *request, err error) {
	if !q.running {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken {
		return nil, nil
	}
	err = guarded(func() (err error) {
		avail := q.ring.availIdx()
		if avail == q.lastAvail {
			return nil
		}
		if int(avail-q.lastAvail) > q.num {
			return errAvail
		}
		r, err = q.takeOne(c)
		return err
	})
	return r, err
}

// lazy returns how many requests of the queue may lie there, and how many answers,
// before anybody is told. It is 0 but for the first queue, which has the guest's
// FORGETs: nobody waits for those, and an emulated guest's kick and interrupt take
// longer than they do. Whoever takes another request takes them along.
func (q *queue) lazy(c *conn) int {
	if q.index != 0 || !c.eventIdx {
		return 0
	}
	return min(maxLazy, q.num/4)
}

// maxLazy bounds what a guest keeps in memory for FORGETs that it would have done with.
const maxLazy = 64

// await tells whether there is something to take. If not, the guest kicks when
// there is; if the queue is lazy and late is set, when there is more of it. Else the
// guest is to be told of what it was given back: by call, with a reference. The
// caller holds world shared.
func (q *queue) await(c *conn, late bool) (there bool, call *eventFD) {
	if !q.running {
		return false, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken {
		return false, nil
	}
	err := guarded(func() error {
		if c.eventIdx {
			event := q.lastAvail
			if late {
				event += uint16(q.lazy(c))
			} else {
				call = q.due(c)
			}
			// Say when to kick, and look then: the other way round a kick is missed.
			q.ring.setAvailEvent(event)
		}
		there = q.ring.availIdx() != q.lastAvail
		return nil
	})
	return there || err != nil, call // take will tell of the error
}

func (q *queue) takeOne(c *conn) (*request, error) {
	if q.inFlight >= q.num {
		return nil, errFull
	}
	r := &request{conn: c, q: q, life: q.life, head: q.ring.availHead(q.lastAvail)}
	r.chain.in, r.out = r.few[:0:2], r.few[2:2]
	if err := q.ring.walk(&r.chain, &c.memory, r.head, q.table); err != nil {
		return nil, fmt.Errorf("chain %d: %w", r.head, err)
	}
	// All of it, if it is small.
	begin := c.server.buffers.get(min(r.inLen, smallBytes))
	if err := c.memory.read(begin, r.chain.in); err != nil {
		return nil, err
	}
	if r.inLen >= fuseproto.HeaderBytes {
		r.header = fuseproto.DecodeHeader(begin)
	}
	if len(begin) == r.inLen {
		r.in = begin
	} else {
		c.server.buffers.put(begin)
	}
	q.lastAvail++
	q.inFlight++
	return r, nil
}

// fetch copies a request out of the guest's memory, unless that was done when it
// was taken. It tells whether the
// request is to be performed: one of a guest that is gone is not, and one of a
// ring that is stopped waits until that goes on, when it belongs to another
// goroutine. So does a large one that is here already: the answer would wait with
// nothing that bounds it.
func (r *request) fetch() (bool, error) {
	if r.in != nil && r.cost == 0 {
		return true, nil
	}
	c, q := r.conn, r.q
	c.world.RLock()
	defer c.world.RUnlock()
	q.mu.Lock()
	current, running := r.life == q.life, q.running && !q.broken
	if current && !running {
		q.waiting = append(q.waiting, r)
	}
	q.mu.Unlock()
	if !current || !running {
		return false, nil
	}
	if r.in != nil {
		return true, nil
	}
	r.in = c.server.buffers.get(r.inLen)
	err := guarded(func() error { return c.memory.read(r.in, r.chain.in) })
	return err == nil, err
}

// finish gives the request back to the guest. If the ring is stopped the
// request is kept until that goes on, when it belongs to another goroutine.
func (r *request) finish() (kept bool, err error) {
	c, q := r.conn, r.q
	c.world.RLock()
	q.mu.Lock()
	give := r.life == q.life && !q.broken
	if kept = give && !q.running; kept {
		r.done = true
		q.waiting = append(q.waiting, r)
	}
	q.mu.Unlock()
	var call *eventFD
	if give && !kept {
		// The ring stays as it is: world is held.
		call, err = r.give()
	}
	c.world.RUnlock()
	if call != nil {
		call.signal()
		call.release()
	}
	return kept, err
}

// give writes the reply and puts the chain into the used ring. It returns the
// eventfd to signal, with a reference.
func (r *request) give() (call *eventFD, err error) {
	c, q := r.conn, r.q
	if err = guarded(func() error { return c.memory.write(r.out, r.reply) }); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	err = guarded(func() error {
		q.ring.setUsed(q.usedIdx, r.head, uint32(len(r.reply)+r.direct))
		q.usedIdx++
		q.ring.setUsedIdx(q.usedIdx)
		q.inFlight--
		q.owed++
		if !fuseproto.Silent(r.header.Opcode) || q.owed > q.lazy(c) {
			call = q.due(c)
		}
		return nil
	})
	return call, err
}

// due returns the eventfd to signal, with a reference, if there are answers of which
// the guest wants to be told. It looks into the guest's memory.
func (q *queue) due(c *conn) *eventFD {
	if q.owed == 0 {
		return nil
	}
	q.owed = 0
	if q.wanted(c) && q.call != nil && q.call.acquire() {
		return q.call
	}
	return nil
}

// wanted tells whether the guest wants to be called now.
func (q *queue) wanted(c *conn) bool {
	if !c.eventIdx {
		const noInterrupt = 1
		return load16(q.ring.avail, 0)&noInterrupt == 0
	}
	old, valid := q.signalled, q.valid
	want := !valid || needEvent(q.ring.usedEvent(), q.usedIdx, old)
	// The index of the last look, as libvhost-user and QEMU have it: whether a
	// call was made or not, what lies before was considered.
	q.signalled, q.valid = q.usedIdx, true
	return want
}
