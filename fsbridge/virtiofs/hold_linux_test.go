package virtiofs

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// holder is an Interceptor that holds operations on names that it is told, or
// writes, until they are released. Like the real one it does not take an
// interrupt for death, but asks.
type holder struct {
	guard   fsbridge.Guard
	hold    func(op *fsbridge.Op) bool
	arrived chan *fsbridge.Op
	release chan error
	pid     func(pid uint32) (uint32, error)

	mu   sync.Mutex
	open int
}

func newHolder(hold func(op *fsbridge.Op) bool) *holder {
	return &holder{hold: hold, arrived: make(chan *fsbridge.Op, 1000), release: make(chan error, 1000)}
}

func onName(name string) func(op *fsbridge.Op) bool {
	return func(op *fsbridge.Op) bool { return op.Name == name }
}

func (h *holder) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	if h.hold(op) {
		op.Dirs.Pause()
		h.arrived <- op
		cancel := op.Cancel
		for waiting := true; waiting; {
			select {
			case err := <-h.release:
				if err != nil {
					return fsbridge.Ticket{}, err
				}
				waiting = false
			case <-cancel:
				cancel = nil
				if _, err := h.pid(op.PID); os.IsNotExist(err) || isDone(err) {
					return fsbridge.Ticket{}, fsbridge.ErrInterrupted
				}
			}
		}
		if err := op.Dirs.Resume(nil); err != nil {
			return fsbridge.Ticket{}, err
		}
	}
	about := op.Dir
	if about == nil {
		about = op.Node
	}
	ticket := h.guard.Enter(about.ID.Ino)
	if err := op.Validate(ticket.Epoch); err != nil {
		h.guard.Exit(ticket)
		return fsbridge.Ticket{}, err
	}
	h.mu.Lock()
	h.open++
	h.mu.Unlock()
	return ticket, nil
}

func (h *holder) End(ticket fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	h.guard.Exit(ticket)
	h.mu.Lock()
	h.open--
	h.mu.Unlock()
}

// changeOf says that the file at a host path changed.
func changeOf(t testing.TB, path string) fsbridge.Changes {
	t.Helper()
	st, err := os.Lstat(path)
	check1(t, err)
	s := st.Sys().(*syscall.Stat_t)
	var c fsbridge.Change
	c.ID.Dev, c.ID.Ino = s.Dev, s.Ino
	return fsbridge.Changes{List: []fsbridge.Change{c}}
}

func isDone(err error) bool { return errors.Is(err, os.ErrProcessDone) }

// holding makes a lab whose holder knows its server.
func holding(t *testing.T, hold func(op *fsbridge.Op) bool, configure func(*Options)) (*lab, *holder) {
	h := newHolder(hold)
	l := newLab(t, func(o *Options) {
		o.Tree.Hooks = h
		if configure != nil {
			configure(o)
		}
	})
	h.pid = l.HostPID
	return l, h
}

// TestHeldElsewhere: a held operation holds up neither its queue nor others,
// nor FORGET.
func TestHeldElsewhere(t *testing.T) {
	l, h := holding(t, onName("victim"), nil)
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	f := l.connect()
	held := f.start(10, root, []byte("victim\x00"), 0)
	<-h.arrived
	node, fh, err := f.create(root, "free")
	check1(t, err)
	check1(t, f.write(node, fh, 0, []byte("x")))
	f.release(node, fh)
	forget := f.queues[0].submit(f.encode(fuseproto.OpForget, node, words(1)), 0)
	f.queues[0].wait(forget)
	other := f.queues[2].submit(f.encode(17, root, nil), fuseproto.ReplyBytes+80)
	if _, err := decodeReply(t, f.queues[2].wait(other)); err != nil {
		t.Errorf("statfs on the other queue: %v", err)
	}
	waitFor(t, "all but the held one", func() bool { return l.InFlight() == 1 })
	h.release <- nil
	if _, err := f.end(held); err != nil {
		t.Errorf("after the decision: %v", err)
	}
	if _, err := os.Stat(l.path("victim")); !os.IsNotExist(err) {
		t.Errorf("the allowed removal did not happen: %v", err)
	}
}

// TestHeldWhileStopped: the machine is paused while an operation is held. The
// rings stop at once; what is decided meanwhile is answered when it goes on.
func TestHeldWhileStopped(t *testing.T) {
	l, h := holding(t, onName("victim"), nil)
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	f := l.connect()
	q := f.queues[1]
	held := f.start(10, root, []byte("victim\x00"), 0)
	<-h.arrived
	base := f.stopRing(q)
	waiting := f.start(17, root, nil, 80) // made available while stopped
	h.release <- nil
	waitFor(t, "the decision", func() bool { return l.InFlight() == 0 })
	if used := load16(f.mem[q.used:], 2); used != q.seen {
		t.Errorf("a stopped ring was written to: used.idx %d, was %d", used, q.seen)
	}
	f.setupRing(q, base)
	if _, err := f.end(held); err != nil {
		t.Errorf("the held one: %v", err)
	}
	if _, err := f.end(waiting); err != nil {
		t.Errorf("the one that waited: %v", err)
	}
	// And decided after it went on.
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	held = f.start(10, root, []byte("victim\x00"), 0)
	<-h.arrived
	f.setupRing(q, f.stopRing(q))
	h.release <- fsbridge.ErrDenied
	if _, err := f.end(held); !errors.Is(err, syscall.EPERM) {
		t.Errorf("denied: %v", err)
	}
}

// TestHeldReboot: the guest reboots while an operation is held: it is let go,
// it does not happen, and its answer is written nowhere.
func TestHeldReboot(t *testing.T) {
	l, h := holding(t, onName("victim"), nil)
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	f := l.connect()
	f.start(10, root, []byte("victim\x00"), 0)
	<-h.arrived
	for _, d := range f.queues {
		f.stopRing(d)
		d.forget()
	}
	for _, d := range f.queues {
		f.setupRing(d, 0)
	}
	f.init()
	waitFor(t, "the held operation to be let go", func() bool { return l.InFlight() == 0 })
	for range 2 * queueSize { // around the ring
		_, err := f.lookup(root, "victim")
		check1(t, err)
	}
}

// TestHeldDisconnect: the emulator dies while operations are held.
func TestHeldDisconnect(t *testing.T) {
	l, h := holding(t, onName("victim"), nil)
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	for range 3 {
		f := l.connect()
		f.start(10, root, []byte("victim\x00"), 0)
		<-h.arrived
		f.conn.Close()
		waitFor(t, "the held operation to be let go", func() bool { return l.InFlight() == 0 })
		if _, err := os.Stat(l.path("victim")); err != nil {
			t.Errorf("the removal happened: %v", err)
		}
	}
	f := l.connect()
	if _, err := f.lookup(root, "victim"); err != nil {
		t.Errorf("after it came back: %v", err)
	}
	if _, err := l.HostPID(4711); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("HostPID of a living guest: %v", err)
	}
}

// TestHeldBytes: held writes take no more memory than they may. Reads go on,
// further large writes wait in the guest's memory.
func TestHeldBytes(t *testing.T) {
	const each = 64 << 10
	l, h := holding(t, func(op *fsbridge.Op) bool { return op.Kind == fsbridge.OpWrite }, func(o *Options) { o.MaxBytes = 3 * each })
	f := l.connect()
	node, fh, err := f.create(root, "a")
	check1(t, err)
	data := make([]byte, each)
	var writes []*pending
	for i := range 6 {
		writes = append(writes, f.start(fuseproto.OpWrite, node, writeBody(fh, int64(i*each), data), 8))
	}
	for range 2 {
		<-h.arrived
	}
	if _, err := f.read(node, fh, 0, each); err != nil {
		t.Errorf("a large read beside held writes: %v", err)
	}
	select {
	case <-h.arrived:
		t.Error("more bytes are held than may be")
	default:
	}
	for range writes {
		h.release <- nil
	}
	for _, w := range writes {
		if _, err := f.end(w); err != nil {
			t.Errorf("write: %v", err)
		}
	}
	if st, err := os.Stat(l.path("a")); err != nil || st.Size() != 6*each {
		t.Errorf("the file: %v, %v", st, err)
	}
}

// TestHeldRequests (DOS-02): more requests than may be are refused.
func TestHeldRequests(t *testing.T) {
	l, h := holding(t, onName("victim"), func(o *Options) { o.MaxRequests = 4 })
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	f := l.connect()
	var held []*pending
	for range 4 {
		held = append(held, f.start(10, root, []byte("victim\x00"), 0))
		<-h.arrived
	}
	if _, err := f.lookup(root, "victim"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("one too many: %v", err)
	}
	for range held {
		h.release <- fsbridge.ErrDenied
	}
	for _, p := range held {
		if _, err := f.end(p); !errors.Is(err, syscall.EPERM) {
			t.Errorf("denied: %v", err)
		}
	}
	if _, err := f.lookup(root, "victim"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestHeldClose: closing does not wait for held operations.
func TestHeldClose(t *testing.T) {
	l, h := holding(t, onName("victim"), nil)
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	f := l.connect()
	f.start(10, root, []byte("victim\x00"), 0)
	<-h.arrived
	check1(t, l.Close())
	waitFor(t, "the held operation to be let go", func() bool { return l.InFlight() == 0 })
}

// waitFor waits for a condition that nothing announces.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// TestStoppedBytes: a guest that stops a ring with many large requests in flight
// does not have their answers pile up: what waited for room waits on.
func TestStoppedBytes(t *testing.T) {
	const most, size, reads = 64 << 10, 64<<10 - fuseproto.ReplyBytes, 12
	l, h := holding(t, onName("victim"), func(o *Options) { o.MaxBytes = most })
	check1(t, os.WriteFile(l.path("victim"), nil, 0o644))
	check1(t, os.WriteFile(l.path("f"), make([]byte, size), 0o644))
	f := l.connect()
	q := f.queues[1]
	node, err := f.lookup(root, "f")
	check1(t, err)
	fh, err := f.open(node, 0)
	check1(t, err)
	held := f.start(10, root, []byte("victim\x00"), size) // has all the room
	<-h.arrived
	var waiting []*pending
	for range reads {
		waiting = append(waiting, f.start(fuseproto.OpRead, node, readBody(fh, 0, size), size))
	}
	waitFor(t, "the reads", func() bool { return l.InFlight() == 1+reads })
	base := f.stopRing(q)
	h.release <- nil
	waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })

	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	kept := 0
	c.world.Lock()
	for _, r := range c.queues[1].waiting {
		kept += cap(r.buf)
	}
	c.world.Unlock()
	if kept > most {
		t.Errorf("the answers of a stopped ring hold %d bytes, %d are allowed", kept, most)
	}
	f.setupRing(q, base)
	if _, err := f.end(held); err != nil {
		t.Errorf("the held one: %v", err)
	}
	for _, p := range waiting {
		if b, err := f.end(p); err != nil || len(b) != size {
			t.Fatalf("a read that waited: %d bytes, %v", len(b), err)
		}
	}
}
