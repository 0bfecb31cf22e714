package virtiofs

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// eventFD is an eventfd of the front-end's. It is counted: whoever signals does
// so without a lock, and a descriptor that is closed too early could become
// another file's. Its flags are shared with the front-end and left as they are.
type eventFD struct {
	fd       int
	blocking bool
	refs     atomic.Int32
}

// newEventFD takes fd over, also on error. Nothing but an eventfd will do:
// whatever else we wrote to might block, or be a file of ours.
func newEventFD(fd int) (*eventFD, error) {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	var flags int
	if err == nil {
		flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	}
	if err == nil && name != "anon_inode:[eventfd]" {
		err = fmt.Errorf("not an eventfd: %s", name)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	e := &eventFD{fd: fd, blocking: flags&unix.O_NONBLOCK == 0}
	e.refs.Store(1)
	return e, nil
}

func (e *eventFD) acquire() bool {
	for {
		r := e.refs.Load()
		if r <= 0 {
			return false
		}
		if e.refs.CompareAndSwap(r, r+1) {
			return true
		}
	}
}

func (e *eventFD) release() {
	if e.refs.Add(-1) == 0 {
		_ = unix.Close(e.fd)
	}
}

// close gives up the first reference. It may be nil.
func (e *eventFD) close() {
	if e != nil {
		e.release()
	}
}

// signal adds one, unless the counter is full, which is as good. It may be
// nil: then nobody wants to know.
func (e *eventFD) signal() {
	if e == nil || !e.acquire() {
		return
	}
	defer e.release()
	if e.blocking {
		poll := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(poll, 0); n != 1 {
			return
		}
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(e.fd, one[:])
}
