package notify

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Near decides whether whoever gets a descriptor is kept on our processor meanwhile. To install
// it, the kernel wakes the caller without saying that we are about to sleep. If another processor is
// idle the caller is woken there, which takes some 30 us; on ours it takes 6, and 3 more for
// the changes of its affinity. We stay there, too: when the caller has installed it we are woken, and would be
// on the other processor. So that is done only as long as it pays. The zero value is ready.
type Near struct {
	left  atomic.Int32 // so many times more it is kept here
	slow  atomic.Int32 // so many in a row took long
	never atomic.Bool  // we may not
}

const (
	slowInject = 14 * time.Microsecond // an injection that has woken another processor
	slowInRow  = 3                     // one may have waited for a processor that is busy
	stayNear   = 128                   // injections, until it is tried without again
)

// Inject is [Listener.Inject] for the caller of n, with the caller kept here if that pays, and us (stay).
func (p *Near) Inject(l Listener, n *Notification, stay *Stay, src int, flags uint32) (int, syscall.Errno) {
	if p.left.Load() <= 0 || p.never.Load() {
		stay.Leave()
		start := time.Now()
		fd, errno := l.Inject(n.ID, src, flags)
		p.took(time.Since(start))
		return fd, errno
	}
	p.left.Add(-1)
	stay.here(n.PID)
	var was affinity
	if !was.pin(n.PID) {
		p.never.Store(true)
		return l.Inject(n.ID, src, flags)
	}
	fd, errno := l.Inject(n.ID, src, flags)
	was.restore(n.PID) // if it was killed, nobody has its number so soon
	return fd, errno
}

// took notes how long an injection took.
func (p *Near) took(d time.Duration) {
	switch {
	case d <= slowInject:
		p.slow.Store(0)
	case p.slow.Add(1) >= slowInRow:
		p.slow.Store(0)
		p.left.Store(stayNear)
	}
}

// Stay keeps a thread of ours on a processor while one caller gets descriptors in a row: to stay for each of them anew takes as
// long as the rest of an injection. The zero value is ready. It belongs to the thread, which calls all methods.
type Stay struct {
	stays  bool
	caller uint32
	since  time.Time // of the last injection
	was    affinity
}

// mayStay is how long it stays when no other descriptor is handed over: whoever calls then may be on another processor.
const mayStay = 200 * time.Microsecond

// here has the thread stay for a caller.
func (s *Stay) here(caller uint32) {
	s.caller, s.since = caller, time.Now()
	if !s.stays {
		s.stays = s.was.pin(0)
	}
}

// Received is called with the caller of each notification, when that has come. If it is another one, or the last injection
// was some time ago, the thread may go where it is woken again.
func (s *Stay) Received(caller uint32, now time.Time) {
	if s.stays && (caller != s.caller || now.Sub(s.since) > mayStay) {
		s.Leave()
	}
}

// Leave ends that at once.
func (s *Stay) Leave() {
	if s.stays {
		s.stays = false
		s.was.restore(0)
	}
}

// affinity is the set of processors of a thread.
type affinity struct {
	set  [16]uint64 // 1,024 processors
	size uintptr
}

// pin keeps a thread, ourselves if it is 0, on the processor that we are on, and remembers where it was allowed before.
func (a *affinity) pin(tid uint32) bool {
	var cpu uint32
	_, _, _ = unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), unsafe.Sizeof(a.set), uintptr(unsafe.Pointer(&a.set)))
	if a.size = n; errno != 0 || int(cpu) >= len(a.set)*64 || a.set[cpu/64]&(1<<(cpu%64)) == 0 {
		return false
	}
	here := affinity{size: n}
	here.set[cpu/64] = 1 << (cpu % 64)
	return here.restore(tid)
}

// restore gives a thread the set.
func (a *affinity) restore(tid uint32) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(tid), a.size, uintptr(unsafe.Pointer(&a.set)))
	return errno == 0
}
