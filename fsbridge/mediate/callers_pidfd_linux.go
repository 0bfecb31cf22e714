package mediate

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// pidFD is a thread's pidfd, once there is one.
type pidFD struct {
	fd     atomic.Int32  // noPID: none can be had, 0: none yet
	wanted atomic.Uint32 // how often it was wanted: for a thread that asks once it does not pay
	denied atomic.Bool   // its descriptors may not be copied
}

const (
	noPID      = -1
	mayRefuse  = 16 // threads whose descriptors may not be copied, until nobody tries any more
	firstWants = 1  // see pidFD.wanted
)

// pidfd returns a pidfd of the thread, or a negative number. It needs threads to have some (Linux 6.9).
func (th *callerThread) pidfd() int {
	if fd := th.pid.fd.Load(); fd != 0 {
		return int(fd)
	}
	if th.pid.wanted.Add(1) <= firstWants {
		return noPID
	}
	fd, err := unix.PidfdOpen(int(th.tid), unix.PIDFD_THREAD)
	if err != nil || fd == 0 {
		rawClose(fd)
		th.pid.fd.CompareAndSwap(0, noPID)
		return noPID
	}
	// It is of whoever has the number now. If th has not gone, that is th.
	if !th.there() {
		rawClose(fd)
		return noPID
	}
	if !th.pid.fd.CompareAndSwap(0, int32(fd)) {
		rawClose(fd)
	}
	return int(th.pid.fd.Load())
}

func (th *callerThread) there() bool {
	var i rawInfo
	return rawLook(th.Proc, rawCwd, &i) == 0
}

// Alive tells whether the thread has not gone, so that its number is not another's.
func (th *callerThread) Alive() bool {
	fd := th.pidfd()
	if fd < 0 {
		return th.there()
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), 0, 0, 0, 0, 0)
	return errno == 0 || errno == syscall.EPERM // which says that there is one
}

// Descriptor describes what the thread's descriptor fd is and, unless flags is nil, how it is open: with flags of open(2). It has
// a copy of it for a moment, which keeps open what another thread closes meanwhile, as the call itself would. It is
// false if there is no such descriptor, or if it cannot be had like that. If it is true, the thread has not gone.
func (t *callerTable) Descriptor(th *callerThread, fd int, out *rawInfo, flags *int) bool {
	if th.pid.denied.Load() || !t.copied.Load() && t.refused.Load() >= mayRefuse {
		return false
	}
	pid := th.pidfd()
	if pid < 0 {
		return false
	}
	n, _, errno := unix.RawSyscall(unix.SYS_PIDFD_GETFD, uintptr(pid), uintptr(fd), 0)
	switch errno {
	case 0:
		t.copied.Store(true)
	case syscall.EPERM, syscall.EACCES, syscall.ENOSYS:
		th.pid.denied.Store(true)
		t.refused.Add(1)
		return false
	default:
		return false
	}
	own := int(n)
	errno = rawLook(own, rawEmpty, out)
	if flags != nil && errno == 0 {
		n, _, errno = unix.RawSyscall(unix.SYS_FCNTL, n, unix.F_GETFL, 0)
		*flags = int(n)
	}
	if typ := out.Type(); errno == 0 && (typ == syscall.S_IFREG || typ == syscall.S_IFDIR) {
		rawClose(own)
	} else {
		go rawClose(own) // a socket may wait in it, if the caller's own was closed meanwhile
	}
	return errno == 0
}

// close gives up what leads to the thread.
func (th *callerThread) close() {
	rawClose(th.Proc)
	if fd := th.pid.fd.Load(); fd > 0 {
		rawClose(int(fd))
	}
}
