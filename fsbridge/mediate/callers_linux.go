package mediate

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
)

// callerThread is what we remember of a thread of the guest.
type callerThread struct {
	// Proc is a descriptor of its directory in /proc, O_PATH: once the thread has gone that leads
	// nowhere, even where another has got its number.
	Proc int
	tid  uint32
	pid  pidFD

	pins  int  // under Table.mu
	gone  bool // no longer in the table; the same
	newer *callerThread
	older *callerThread

	// umask is the thread's umask, and asOf when it was: see Table.umasks. 0: not known.
	umask atomic.Uint32
	asOf  atomic.Uint64
}

const (
	maxThreads = 256 // bounds the threads that are remembered
	looks      = 2   // at how many it is looked when one more comes
)

// callerTable has the threads that have called lately. Its methods are safe for concurrent use.
type callerTable struct {
	mu    sync.Mutex
	known map[uint32]*callerThread
	// ring is the list of the known, newest first, in a circle.
	ring callerThread

	// umasks counts the calls of umask(2) that we have seen begin.
	umasks atomic.Uint64
	// copied and refused are for copying descriptors: see pidfd_linux.go.
	copied  atomic.Bool
	refused atomic.Int32

	// setting are threads that were in umask(2) when we heard of them last: until each
	// is heard of again, or has gone, nobody's umask is remembered.
	setting map[uint32]*callerThread
}

// newCallers makes a table without threads.
func newCallers() *callerTable {
	t := &callerTable{known: make(map[uint32]*callerThread), setting: make(map[uint32]*callerThread)}
	t.ring.newer, t.ring.older = &t.ring, &t.ring
	t.umasks.Store(1)
	return t
}

// Get returns the thread with the number tid, pinned; [callerTable.Put] gives it back. It may
// be a former one's.
func (t *callerTable) Get(tid uint32) (*callerThread, syscall.Errno) {
	t.mu.Lock()
	if th := t.known[tid]; th != nil {
		th.pins++
		t.unlink(th)
		t.link(th)
		t.mu.Unlock()
		return th, 0
	}
	t.mu.Unlock()
	var buf [24]byte
	fd, errno := rawOpenAt(unix.AT_FDCWD, rawNumbered(buf[:], "/proc/", uint64(tid)), unix.O_PATH|unix.O_DIRECTORY)
	if errno != 0 {
		return nil, errno
	}
	th := &callerThread{tid: tid, Proc: fd, pins: 1}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.known[tid]; old != nil {
		t.drop(old)
	}
	t.sweep()
	t.known[tid] = th
	t.link(th)
	return th, 0
}

// sweep looks at a few of the oldest before one more comes: it forgets those that have gone, and has the others be the
// newest. So those that have gone stay few. If there are too many, it forgets the oldest that nobody uses.
func (t *callerTable) sweep() {
	for range looks {
		old := t.ring.newer
		if old == &t.ring {
			return
		}
		t.unlink(old)
		t.link(old)
		if old.pins == 0 && !old.there() {
			t.drop(old)
		}
	}
	for old := t.ring.newer; len(t.known) >= maxThreads && old != &t.ring; {
		next := old.newer
		if old.pins == 0 {
			t.drop(old)
		}
		old = next
	}
}

// link makes th the newest, which is ring.older.
func (t *callerTable) link(th *callerThread) {
	th.older, th.newer = t.ring.older, &t.ring
	th.older.newer, t.ring.older = th, th
}

func (t *callerTable) unlink(th *callerThread) {
	th.older.newer, th.newer.older = th.newer, th.older
}

func (t *callerTable) drop(th *callerThread) {
	if th.gone {
		return
	}
	th.gone = true
	t.unlink(th)
	if t.known[th.tid] == th {
		delete(t.known, th.tid)
	}
	if t.setting[th.tid] == th {
		delete(t.setting, th.tid)
	}
	if th.pins == 0 {
		th.close()
	}
}

// Put gives back what Get returned; gone says that it leads nowhere.
func (t *callerTable) Put(th *callerThread, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	th.pins--
	switch {
	case th.gone && th.pins == 0:
		th.close()
	case gone:
		t.drop(th)
	}
}

// Close forgets all of them.
func (t *callerTable) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, th := range t.known {
		t.drop(th)
	}
}

// SettingUmask is called before the thread performs umask(2).
func (t *callerTable) SettingUmask(th *callerThread) {
	t.umasks.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !th.gone {
		t.setting[th.tid] = th
	}
}

// settled tells whether no thread but th, which is heard of again, may be in umask(2).
func (t *callerTable) settled(th *callerThread) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.setting[th.tid] == th {
		delete(t.setting, th.tid)
	}
	for tid, other := range t.setting {
		if !other.there() || other.waitsElsewhere() {
			delete(t.setting, tid)
		}
	}
	return len(t.setting) == 0
}

// waitsElsewhere tells whether the thread waits in another call than umask(2): a shell
// that has set its umask waits for its child. If it runs, nobody knows. An ordinary user may not
// see the call of a process that cannot be dumped (PID 1), but where in the kernel it sleeps.
func (th *callerThread) waitsElsewhere() bool {
	var buf [64]byte
	n, errno := rawReadFrom(th.Proc, rawName("syscall\x00"), buf[:])
	if errno != 0 {
		n, errno = rawReadFrom(th.Proc, rawName("wchan\x00"), buf[:])
		return errno == 0 && notify.SleepsElsewhere(buf[:n])
	}
	nr, waits := procCall(buf[:n])
	return waits && nr != unix.SYS_UMASK
}

// UmaskOf returns the umask of a thread that waits for us. It is part of what threads may
// share: so a umask is remembered only for as long as none is set.
func (t *callerTable) UmaskOf(th *callerThread) (uint32, syscall.Errno) {
	now := t.umasks.Load()
	if th.asOf.Load() == now {
		return th.umask.Load(), 0
	}
	settled := t.settled(th)
	var buf [256]byte // it is the second line
	n, errno := rawReadFrom(th.Proc, rawName("status\x00"), buf[:])
	if errno != 0 {
		return 0, errno
	}
	mask, ok := notify.Umask(buf[:n])
	if !ok {
		return 0, syscall.ESRCH // a thread that ends has none
	}
	if settled {
		th.umask.Store(mask)
		th.asOf.Store(now)
	}
	return mask, 0
}

// Mistake has the table take th for the thread with the number tid, as it does when the number is used again.
// Tests need it.
func (t *callerTable) Mistake(th *callerThread, tid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, th.tid)
	th.tid = tid
	t.known[tid] = th
}
