package virtiofs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// tagBytes is the room for the tag in the device's configuration.
const tagBytes = 36

// stallAfter is what the guest's others wait at most, about twice, for a request that
// is slow. Like spinning, which is not done here, a shorter time would take
// processor time from the guest and its emulator.
const stallAfter = 5 * time.Millisecond

// conn is a front-end's connection: a device.
type conn struct {
	server  *Server
	socket  *net.UnixConn
	epoll   int
	wake    *eventFD // tells the workers to look everywhere
	workers *fuseproto.Pool

	// world is held shared while the guest's memory is used.
	world    sync.RWMutex
	memory   memory
	queues   []*queue
	eventIdx bool
	features uint64 // what the front-end set
	protocol uint64
	resumed  []*request // to go on with, after the message
	ended    atomic.Bool
}

func newConn(s *Server, socket *net.UnixConn) (*conn, error) {
	c := &conn{server: s, socket: socket, workers: fuseproto.NewPool(fuseproto.PoolOptions{StallAfter: stallAfter})}
	for i := range 1 + s.o.RequestQueues {
		c.queues = append(c.queues, &queue{index: i})
	}
	var err error
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		if c.wake, err = newEventFD(fd); err == nil {
			err = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeIndex})
		}
	}
	if err != nil {
		c.wake.close()
		_ = unix.Close(c.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return c, nil
}

// close makes serve return.
func (c *conn) close() { _ = c.socket.Close() }

// serve answers messages until the front-end goes, or breaks the rules.
func (c *conn) serve() error {
	c.workers.Start(&hand{c: c})
	err := c.messages()
	c.ended.Store(true)
	c.world.Lock()
	for _, q := range c.queues {
		q.stop()
		q.reset()
		q.call.close()
		q.err.close()
		q.call, q.err = nil, nil
	}
	c.memory.clear()
	c.world.Unlock()
	c.wake.signal()
	<-c.workers.Over()
	_ = unix.Close(c.epoll)
	c.wake.close()
	_ = c.socket.Close()
	return err
}

func (c *conn) messages() error {
	for {
		m, err := readMessage(c.socket)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("virtiofs: vhost-user: %w", err)
		}
		err = c.message(m)
		m.close()
		if err != nil {
			return fmt.Errorf("virtiofs: vhost-user message %d: %w", m.request, err)
		}
	}
}

// message obeys one message and answers it if it wants an answer. An error
// that no answer can carry is returned.
func (c *conn) message(m *message) error {
	reply, err := c.obey(m)
	for _, r := range c.resumed {
		if perform := c.admit(r); perform != nil {
			go perform(r)
		}
	}
	c.resumed = nil
	switch {
	case err == nil && reply != nil:
		return writeReply(c.socket, m.request, reply)
	case m.flags&wireNeedReply != 0 && c.protocol&protoReplyAck != 0 && !hasReply(m.request):
		failed := uint64(0)
		if err != nil {
			failed = 1
			c.server.log.Warn("vhost-user message refused", "component", "virtiofs", "message", m.request, "error", err)
		}
		return writeReply(c.socket, m.request, u64Reply(failed))
	}
	return err
}

// hasReply tells whether a request has an answer of its own.
func hasReply(request uint32) bool {
	switch request {
	case reqGetFeatures, reqGetProtocolFeatures, reqGetQueueNum, reqGetVringBase, reqGetConfig, reqGetMaxMemSlots:
		return true
	}
	return false
}

var (
	errPayload = errors.New("payload of the wrong length")
	errUnknown = errors.New("unknown message")
	errIndex   = errors.New("no such queue")
	errNoFile  = errors.New("descriptor missing")
	errRunning = errors.New("the ring is running")
)

// payloads says how long the payload of each message is; -1 where that varies.
var payloads = map[uint32]int{
	reqGetFeatures: 0, reqSetFeatures: 8, reqSetOwner: 0, reqResetOwner: 0, reqSetMemTable: -1,
	reqSetVringNum: 8, reqSetVringAddr: 40, reqSetVringBase: 8, reqGetVringBase: 8,
	reqSetVringKick: 8, reqSetVringCall: 8, reqSetVringErr: 8,
	reqGetProtocolFeatures: 0, reqSetProtocolFeatures: 8, reqGetQueueNum: 0, reqSetVringEnable: 8,
	reqGetConfig: -1, reqResetDevice: 0, reqGetMaxMemSlots: 0, reqAddMemReg: 40, reqRemMemReg: 40,
}

// obey does what a message says and returns the answer, for those that have
// one.
func (c *conn) obey(m *message) ([]byte, error) {
	want, known := payloads[m.request]
	if !known {
		return nil, errUnknown
	}
	if want >= 0 && len(m.payload) != want {
		return nil, errPayload
	}
	c.world.Lock()
	defer c.world.Unlock()
	switch m.request {
	case reqGetFeatures:
		return u64Reply(features), nil
	case reqSetFeatures:
		return nil, c.setFeatures(m.u64(0))
	case reqGetProtocolFeatures:
		return u64Reply(c.offered()), nil
	case reqSetProtocolFeatures:
		if m.u64(0)&^c.offered() != 0 {
			return nil, fmt.Errorf("protocol features %#x were not offered", m.u64(0))
		}
		c.protocol = m.u64(0)
		return nil, nil
	case reqGetQueueNum:
		return u64Reply(uint64(len(c.queues))), nil
	case reqGetMaxMemSlots:
		return u64Reply(maxRegions), nil
	case reqGetConfig:
		return c.config(m)
	case reqSetOwner:
		return nil, nil
	case reqResetOwner, reqResetDevice:
		c.reset()
		return nil, nil
	case reqSetMemTable:
		return nil, c.setMemTable(m)
	case reqAddMemReg:
		fd := m.file(0)
		if fd < 0 {
			return nil, errNoFile
		}
		err := c.memory.add(m.region(8), fd)
		_ = unix.Close(fd)
		return nil, errors.Join(err, c.reopen())
	case reqRemMemReg:
		err := c.memory.remove(m.region(8))
		return nil, errors.Join(err, c.reopen())
	}
	return c.vring(m)
}

// region decodes a description of one.
func (m *message) region(off int) regionSpec {
	return regionSpec{guest: m.u64(off), size: m.u64(off + 8), user: m.u64(off + 16), offset: m.u64(off + 24)}
}

func (c *conn) offered() uint64 {
	if c.server.o.Tag != "" {
		return protocolFeatures | protoConfig
	}
	return protocolFeatures
}

func (c *conn) setFeatures(f uint64) error {
	if f&^features != 0 {
		return fmt.Errorf("features %#x were not offered", f)
	}
	for _, q := range c.queues {
		if q.running && f != c.features {
			return errRunning
		}
		// Without vhost-user's own features there is no message to enable.
		if f&featProtocol == 0 {
			q.enabled = true
		}
	}
	c.features = f
	c.eventIdx = f&featEventIdx != 0
	return nil
}

// config answers with struct virtio_fs_config.
func (c *conn) config(m *message) ([]byte, error) {
	if len(m.payload) < 12 || c.server.o.Tag == "" {
		return nil, errPayload
	}
	var config [tagBytes + 4 + 4]byte
	copy(config[:tagBytes], c.server.o.Tag)
	binary.LittleEndian.PutUint32(config[tagBytes:], uint32(len(c.queues)-1))
	off, size := m.u32(0), m.u32(4)
	if uint64(off)+uint64(size) > uint64(len(config)) || int(size) != len(m.payload)-12 {
		return nil, errPayload
	}
	reply := slices.Clone(m.payload)
	copy(reply[12:], config[off:][:size])
	return reply, nil
}

// reset stops everything: the guest begins anew.
func (c *conn) reset() {
	for _, q := range c.queues {
		c.unwatch(q)
		q.stop()
		q.reset()
		q.lastAvail, q.usedIdx, q.base = 0, 0, 0
		q.enabled, q.broken = false, false
	}
}

// setMemTable replaces all regions.
func (c *conn) setMemTable(m *message) error {
	if len(m.payload) < 8 {
		return errPayload
	}
	n := int(min(m.u32(0), maxFDs+1))
	if len(m.payload) != 8+32*n {
		return errPayload
	}
	if len(m.fds) != n {
		return errNoFile
	}
	c.memory.clear()
	var err error
	for i := range n {
		fd := m.file(i)
		err = errors.Join(err, c.memory.add(m.region(8+32*i), fd))
		_ = unix.Close(fd)
	}
	return errors.Join(err, c.reopen())
}

// reopen finds the rings that run in memory that changed. One that is not
// there any more is broken.
func (c *conn) reopen() error {
	var errs error
	for _, q := range c.queues {
		if !q.running {
			continue
		}
		r, err := openRing(&c.memory, q.num, q.addr)
		if err != nil {
			q.broken, q.ring = true, ring{}
			errs = errors.Join(errs, fmt.Errorf("queue %d: %w", q.index, err))
			continue
		}
		q.ring = r
	}
	return errs
}

// vring obeys the messages about one ring.
func (c *conn) vring(m *message) ([]byte, error) {
	switch m.request {
	case reqSetVringKick, reqSetVringCall, reqSetVringErr:
		return nil, c.setEvent(m)
	}
	index := m.u32(0)
	if index >= uint32(len(c.queues)) {
		return nil, errIndex
	}
	q := c.queues[index]
	switch m.request {
	case reqGetVringBase:
		c.unwatch(q)
		q.stop()
		reply := binary.LittleEndian.AppendUint32(nil, index)
		return binary.LittleEndian.AppendUint32(reply, uint32(q.lastAvail)), nil
	case reqSetVringEnable:
		q.enabled = m.u32(4) != 0
		if q.running && !q.enabled {
			// The ring stays started: its kicks count when it is enabled again.
			q.halt()
			return nil, nil
		}
		return nil, c.start(q)
	}
	if q.running {
		return nil, errRunning
	}
	q.broken = false // a new beginning
	switch m.request {
	case reqSetVringNum:
		n := m.u32(4)
		if n == 0 || n > maxQueueSize || n&(n-1) != 0 {
			return nil, fmt.Errorf("queue of %d descriptors", n)
		}
		q.num = int(n)
	case reqSetVringBase:
		if m.u32(4) > 0xffff {
			return nil, fmt.Errorf("base %d", m.u32(4))
		}
		q.base = uint16(m.u32(4))
	case reqSetVringAddr:
		q.addr = ringAddr{desc: m.u64(8), used: m.u64(16), avail: m.u64(24)}
		return nil, c.start(q)
	}
	return nil, nil
}

// setEvent takes an eventfd of a ring.
func (c *conn) setEvent(m *message) error {
	const noFile = 1 << 8
	v := m.u64(0)
	if v&^(noFile|0xff) != 0 || v&0xff >= uint64(len(c.queues)) {
		return errIndex
	}
	q := c.queues[v&0xff]
	var e *eventFD
	if v&noFile == 0 {
		fd := m.file(0)
		if fd < 0 {
			return errNoFile
		}
		var err error
		if e, err = newEventFD(fd); err != nil {
			return err
		}
	}
	switch m.request {
	case reqSetVringCall:
		q.call.close()
		q.call = e
	case reqSetVringErr:
		q.err.close()
		q.err = e
	case reqSetVringKick:
		if e == nil {
			return fmt.Errorf("%w: rings are not polled", errNoFile)
		}
		c.unwatch(q)
		q.kick.close()
		q.kick = e
		if err := c.watch(q); err != nil {
			return err
		}
		return c.start(q)
	}
	return nil
}

// start starts the ring if it can be, and goes on with the requests it had.
func (c *conn) start(q *queue) error {
	was := q.running
	if err := q.start(c); err != nil || was || !q.running {
		return err
	}
	c.resumed = append(c.resumed, q.waiting...)
	q.waiting = nil
	c.wake.signal() // for what was made available before
	return nil
}
