package virtiofs

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

func TestMain(m *testing.M) {
	hostfs.ClearUmask()
	os.Exit(m.Run())
}

// The memory of the guest that the tests play: one file, at these addresses.
const (
	guestBase = 0x1000_0000
	userBase  = 0x7f00_0000_0000
	memBytes  = 32 << 20
	queueSize = 32
	queueMem  = 4 << 20  // of each queue
	slotBytes = 96 << 10 // of each direction of a request
	ringMem   = 64 << 10
)

// patience is longer than anything here takes.
const patience = 5 * time.Minute

// lab is a folder that is served.
type lab struct {
	t      testing.TB
	host   string
	socket string
	*Server
}

func newLab(t testing.TB, configure func(*Options)) *lab {
	t.Helper()
	dir := t.TempDir()
	l := &lab{t: t, host: filepath.Join(dir, "host"), socket: filepath.Join(dir, "s")}
	check1(t, os.Mkdir(l.host, 0o755))
	root, err := hostfs.OpenRoot(l.host)
	check1(t, err)
	o := Options{Tree: vfs.Options{Root: root, Logger: slog.New(slog.NewTextHandler(logTo{t}, nil))}}
	if configure != nil {
		configure(&o)
	}
	l.Server, err = Listen(l.socket, o)
	check1(t, err)
	t.Cleanup(func() {
		check1(t, l.Close())
		root.Close()
	})
	return l
}

type logTo struct{ t testing.TB }

func (w logTo) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func check1(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) path(name string) string { return filepath.Join(l.host, name) }

// frontend plays QEMU and the guest.
type frontend struct {
	t      testing.TB
	conn   *net.UnixConn
	memfd  int
	mem    []byte
	queues []*driver
	proto  uint64
	feats  uint64
	unique uint64
	mu     sync.Mutex
}

// dial connects; nothing is set up yet.
func (l *lab) dial() *frontend {
	l.t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.socket, Net: "unix"})
	check1(l.t, err)
	f := &frontend{t: l.t, conn: c}
	f.memfd, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	check1(l.t, err)
	check1(l.t, unix.Ftruncate(f.memfd, memBytes))
	f.mem, err = unix.Mmap(f.memfd, 0, memBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check1(l.t, err)
	l.t.Cleanup(func() {
		f.conn.Close()
		_ = unix.Munmap(f.mem)
		unix.Close(f.memfd)
		for _, d := range f.queues {
			d.close()
		}
	})
	return f
}

// connect sets everything up with two queues and begins a FUSE session.
func (l *lab) connect() *frontend {
	l.t.Helper()
	f := l.dial()
	f.negotiate(features, protoMQ|protoReplyAck|protoMemSlots)
	f.addMemory(0)
	for i := range 3 {
		f.queues = append(f.queues, newDriver(f, i))
		f.setupRing(f.queues[i], 0)
	}
	f.init()
	return f
}

func (f *frontend) negotiate(feats, proto uint64) {
	f.t.Helper()
	offered := f.ask(reqGetFeatures, nil)
	if got := binary.LittleEndian.Uint64(offered); got&feats != feats {
		f.t.Fatalf("features %#x, want %#x", got, feats)
	}
	f.ask(reqGetProtocolFeatures, nil)
	f.send(reqSetProtocolFeatures, 0, u64Reply(proto))
	f.proto = proto
	f.tell(reqSetOwner, nil)
	f.feats = feats
	f.tell(reqSetFeatures, u64Reply(feats))
}

func words(vs ...uint64) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func state(index, num uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, index), num)
}

// addMemory adds all of the memory as one region.
func (f *frontend) addMemory(skip uint64) {
	f.t.Helper()
	f.tell(reqAddMemReg, words(0, guestBase+skip, memBytes-skip, userBase+skip, skip), f.memfd)
}

// setupRing starts a ring at an index.
func (f *frontend) setupRing(d *driver, base uint32) {
	f.t.Helper()
	i := uint32(d.index)
	f.tell(reqSetVringNum, state(i, queueSize))
	f.tell(reqSetVringBase, state(i, base))
	f.tell(reqSetVringAddr, words(uint64(i), userBase+d.desc, userBase+d.used, userBase+d.avail, 0))
	f.tell(reqSetVringKick, words(uint64(i)), d.kick)
	f.tell(reqSetVringCall, words(uint64(i)), d.call)
	f.tell(reqSetVringErr, words(uint64(i)), d.err)
	f.tell(reqSetVringEnable, state(i, 1))
}

// stopRing stops a ring and returns its index.
func (f *frontend) stopRing(d *driver) uint32 {
	f.t.Helper()
	f.tell(reqSetVringEnable, state(uint32(d.index), 0))
	return binary.LittleEndian.Uint32(f.ask(reqGetVringBase, state(uint32(d.index), 0))[4:])
}

func (f *frontend) send(request, flags uint32, payload []byte, fds ...int) {
	f.t.Helper()
	b := make([]byte, wireHeaderBytes)
	binary.LittleEndian.PutUint32(b, request)
	binary.LittleEndian.PutUint32(b[4:], wireVersion|flags)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(payload)))
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := f.conn.WriteMsgUnix(append(b, payload...), oob, nil)
	check1(f.t, err)
}

func (f *frontend) reply() ([]byte, error) {
	f.conn.SetReadDeadline(time.Now().Add(patience))
	head := make([]byte, wireHeaderBytes)
	if _, err := io.ReadFull(f.conn, head); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.LittleEndian.Uint32(head[8:]))
	_, err := io.ReadFull(f.conn, payload)
	return payload, err
}

// ask sends a message that has an answer.
func (f *frontend) ask(request uint32, payload []byte) []byte {
	f.t.Helper()
	f.send(request, 0, payload)
	b, err := f.reply()
	check1(f.t, err)
	return b
}

// try sends a message and returns whether it was accepted.
func (f *frontend) try(request uint32, payload []byte, fds ...int) bool {
	f.t.Helper()
	f.send(request, wireNeedReply, payload, fds...)
	b, err := f.reply()
	check1(f.t, err)
	return binary.LittleEndian.Uint64(b) == 0
}

func (f *frontend) tell(request uint32, payload []byte, fds ...int) {
	f.t.Helper()
	if f.proto&protoReplyAck == 0 {
		f.send(request, 0, payload, fds...)
		return
	}
	if !f.try(request, payload, fds...) {
		f.t.Fatalf("message %d refused", request)
	}
}

// driver is the guest's side of a virtqueue. Request number i has descriptors
// 2i (to read) and 2i+1 (to write) and buffers of its own.
type driver struct {
	f                 *frontend
	index             int
	desc, avail, used uint64 // offsets in the memory
	kick, call, err   int
	indirect          bool

	mu      sync.Mutex
	free    []int
	next    uint16 // avail.idx
	seen    uint16 // used.idx
	pending map[uint32]*pending
}

type pending struct {
	slot int
	done bool
	n    uint32
	out  []byte
}

func newDriver(f *frontend, index int) *driver {
	base := uint64(index * queueMem)
	d := &driver{f: f, index: index, desc: base, avail: base + 16<<10, used: base + 32<<10, pending: map[uint32]*pending{}}
	for i := range queueSize / 2 {
		d.free = append(d.free, i)
	}
	for _, fd := range []*int{&d.kick, &d.call, &d.err} {
		var err error
		*fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		check1(f.t, err)
	}
	return d
}

func (d *driver) close() {
	for _, fd := range []int{d.kick, d.call, d.err} {
		unix.Close(fd)
	}
}

// forget makes the ring as a rebooted guest has it.
func (d *driver) forget() {
	clear(d.f.mem[d.desc:][:ringMem])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next, d.seen, d.free = 0, 0, nil
	d.pending = map[uint32]*pending{}
	for i := range queueSize / 2 {
		d.free = append(d.free, i)
	}
}

func (d *driver) inAt(slot int) uint64  { return uint64(d.index*queueMem + ringMem + 2*slot*slotBytes) }
func (d *driver) outAt(slot int) uint64 { return d.inAt(slot) + slotBytes }

func putDesc(b []byte, addr uint64, n uint32, flags, next uint16) {
	binary.LittleEndian.PutUint64(b, addr)
	binary.LittleEndian.PutUint32(b[8:], n)
	binary.LittleEndian.PutUint16(b[12:], flags)
	binary.LittleEndian.PutUint16(b[14:], next)
}

// submit makes a request available, and kicks.
func (d *driver) submit(in []byte, out int) *pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.free) == 0 {
		d.f.t.Error("no free slot")
		return &pending{done: true}
	}
	slot := d.free[0]
	d.free = d.free[1:]
	mem := d.f.mem
	copy(mem[d.inAt(slot):], in)
	descs, first := mem[d.desc:], uint16(2*slot)
	table, at := descs, first
	if d.indirect {
		// The table lies behind the reply.
		where := d.outAt(slot) + slotBytes - 64
		putDesc(descs[16*first:], guestBase+where, 32, descIndirect, 0)
		table, at = mem[where:], 0
	}
	if out > 0 {
		putDesc(table[16*at:], guestBase+d.inAt(slot), uint32(len(in)), descNext, at+1)
		putDesc(table[16*(at+1):], guestBase+d.outAt(slot), uint32(out), descWrite, 0)
	} else {
		putDesc(table[16*at:], guestBase+d.inAt(slot), uint32(len(in)), 0, 0)
		if d.indirect {
			binary.LittleEndian.PutUint32(descs[16*first+8:], 16)
		}
	}
	p := &pending{slot: slot}
	d.pending[uint32(first)] = p
	d.offer(first)
	return p
}

// offer puts a head into the available ring and kicks. mu is held.
func (d *driver) offer(head uint16) {
	avail := d.f.mem[d.avail:][:6+2*queueSize]
	binary.LittleEndian.PutUint16(avail[4+2*(int(d.next)%queueSize):], head)
	d.next++
	store16(avail, 2, d.next)
	signalFD(d.kick)
}

func signalFD(fd int) {
	var one [8]byte
	one[0] = 1
	_, _ = unix.Write(fd, one[:])
}

// wait returns a request's reply.
func (d *driver) wait(p *pending) []byte {
	d.f.t.Helper()
	out, ok := d.poll(p, patience)
	if !ok {
		d.f.t.Fatalf("no reply within %v", patience)
	}
	return out
}

// poll waits for a reply, for a while.
func (d *driver) poll(p *pending, limit time.Duration) ([]byte, bool) {
	for end := time.Now().Add(limit); ; {
		d.mu.Lock()
		d.reap()
		done := p.done
		d.mu.Unlock()
		if done {
			return p.out, true
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, false
		}
		// Another goroutine may take the call: look again soon.
		fds := []unix.PollFd{{Fd: int32(d.call), Events: unix.POLLIN}}
		if n, _ := unix.Poll(fds, int(min(left, 20*time.Millisecond)/time.Millisecond)); n > 0 {
			var b [8]byte
			_, _ = unix.Read(d.call, b[:])
		}
	}
}

// reap takes what is in the used ring, and asks to be called for the next.
func (d *driver) reap() {
	mem := d.f.mem
	used, avail := mem[d.used:][:6+8*queueSize], mem[d.avail:][:6+2*queueSize]
	for {
		now := load16(used, 2)
		if now == d.seen {
			store16(avail, 4+2*queueSize, d.seen)
			if load16(used, 2) == d.seen {
				return
			}
			continue
		}
		e := used[4+8*(int(d.seen)%queueSize):]
		d.seen++
		id, n := binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])
		p := d.pending[id]
		if p == nil {
			d.f.t.Errorf("queue %d: reply to %d, which was not asked", d.index, id)
			continue
		}
		delete(d.pending, id)
		p.n, p.done = n, true
		p.out = append([]byte(nil), mem[d.outAt(p.slot):][:n]...)
		d.free = append(d.free, p.slot)
	}
}

// errSignalled tells whether the back-end reported the queue as broken.
func (d *driver) errSignalled() bool {
	fds := []unix.PollFd{{Fd: int32(d.err), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds, int(patience/time.Millisecond))
	return n > 0
}

// encode makes a FUSE request.
func (f *frontend) encode(opcode uint32, node uint64, body []byte) []byte {
	f.mu.Lock()
	f.unique++
	unique := f.unique
	f.mu.Unlock()
	b := make([]byte, fuseproto.HeaderBytes, fuseproto.HeaderBytes+len(body))
	binary.LittleEndian.PutUint32(b, uint32(fuseproto.HeaderBytes+len(body)))
	binary.LittleEndian.PutUint32(b[4:], opcode)
	binary.LittleEndian.PutUint64(b[8:], unique)
	binary.LittleEndian.PutUint64(b[16:], node)
	binary.LittleEndian.PutUint32(b[32:], 4711) // pid
	return append(b, body...)
}

// start sends a FUSE request on the first request queue.
func (f *frontend) start(opcode uint32, node uint64, body []byte, room int) *pending {
	f.t.Helper()
	return f.queues[1].submit(f.encode(opcode, node, body), fuseproto.ReplyBytes+room)
}

func (f *frontend) end(p *pending) ([]byte, error) {
	f.t.Helper()
	return decodeReply(f.t, f.queues[1].wait(p))
}

func decodeReply(t testing.TB, b []byte) ([]byte, error) {
	t.Helper()
	if len(b) < fuseproto.ReplyBytes || int(binary.LittleEndian.Uint32(b)) != len(b) {
		t.Fatalf("reply of %d bytes: %x", len(b), b[:min(len(b), 16)])
	}
	if e := int32(binary.LittleEndian.Uint32(b[4:])); e != 0 {
		return nil, syscall.Errno(-e)
	}
	return b[fuseproto.ReplyBytes:], nil
}

func (f *frontend) call(opcode uint32, node uint64, body []byte, room int) ([]byte, error) {
	f.t.Helper()
	return f.end(f.start(opcode, node, body, room))
}

func (f *frontend) must(opcode uint32, node uint64, body []byte, room int) []byte {
	f.t.Helper()
	b, err := f.call(opcode, node, body, room)
	if err != nil {
		f.t.Fatalf("opcode %d: %v", opcode, err)
	}
	return b
}

func (f *frontend) init() {
	f.t.Helper()
	body := make([]byte, 64)
	binary.LittleEndian.PutUint32(body, 7)
	binary.LittleEndian.PutUint32(body[4:], 38)
	binary.LittleEndian.PutUint32(body[8:], 128<<10)
	binary.LittleEndian.PutUint32(body[12:], ^uint32(0)&^(1<<30))
	f.must(fuseproto.OpInit, 0, body, 64)
}

func (f *frontend) lookup(dir uint64, name string) (uint64, error) {
	f.t.Helper()
	b, err := f.call(1, dir, append([]byte(name), 0), 128)
	if err != nil {
		return 0, err
	}
	node := binary.LittleEndian.Uint64(b)
	if node == 0 {
		return 0, syscall.ENOENT
	}
	return node, nil
}

func (f *frontend) create(dir uint64, name string) (node, fh uint64, err error) {
	f.t.Helper()
	body := binary.LittleEndian.AppendUint32(nil, unix.O_RDWR)
	body = binary.LittleEndian.AppendUint32(body, unix.S_IFREG|0o644)
	body = append(body, make([]byte, 8)...)
	b, err := f.call(35, dir, append(append(body, name...), 0), 160)
	if err != nil {
		return 0, 0, err
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[128:]), nil
}

func (f *frontend) open(node uint64, flags uint32) (uint64, error) {
	f.t.Helper()
	b, err := f.call(14, node, state(flags, 0), 16)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func writeBody(fh uint64, off int64, data []byte) []byte {
	b := words(fh, uint64(off))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, make([]byte, 20)...)
	return append(b, data...)
}

func (f *frontend) write(node, fh uint64, off int64, data []byte) error {
	f.t.Helper()
	b, err := f.call(fuseproto.OpWrite, node, writeBody(fh, off, data), 8)
	if err == nil && int(binary.LittleEndian.Uint32(b)) != len(data) {
		err = fmt.Errorf("wrote %d of %d bytes", binary.LittleEndian.Uint32(b), len(data))
	}
	return err
}

func readBody(fh uint64, off int64, n int) []byte {
	b := words(fh, uint64(off))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return append(b, make([]byte, 20)...)
}

func (f *frontend) read(node, fh uint64, off int64, n int) ([]byte, error) {
	f.t.Helper()
	return f.call(15, node, readBody(fh, off, n), n)
}

func (f *frontend) release(node, fh uint64) {
	f.t.Helper()
	f.must(18, node, append(words(fh), make([]byte, 16)...), 0)
}

func (f *frontend) unlink(dir uint64, name string) error {
	f.t.Helper()
	_, err := f.call(10, dir, append([]byte(name), 0), 0)
	return err
}

func (f *frontend) rename(dir uint64, name string, to uint64, newName string) error {
	f.t.Helper()
	_, err := f.call(12, dir, append(append(append(words(to), name...), 0), append([]byte(newName), 0)...), 0)
	return err
}
