package watcher

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// alarm waits for a descriptor to become readable, and is woken by it only
// while somebody waits. The runtime's poller would be woken by every event:
// that is a thread to wake in each of a workload's own mutations, and half of
// what they take. So an epoll of our own, armed for one event at a time, stands
// between the two.
type alarm struct {
	fd   int      // what is waited for
	file *os.File // the epoll
	conn syscall.RawConn
}

func newAlarm(fd int) (*alarm, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(epfd, true); err != nil { // so that the runtime polls it
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	a := &alarm{fd: fd, file: os.NewFile(uintptr(epfd), "epoll")}
	if a.conn, err = a.file.SyscallConn(); err == nil {
		err = a.control(unix.EPOLL_CTL_ADD, 0)
	}
	if err != nil {
		_ = a.file.Close()
		return nil, err
	}
	return a, nil
}

func (a *alarm) control(op int, events uint32) error {
	var err error
	cerr := a.conn.Control(func(epfd uintptr) {
		err = unix.EpollCtl(int(epfd), op, a.fd, &unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(a.fd)})
	})
	if cerr != nil {
		return cerr
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// next waits until there is something to read, or close is called
// ([os.ErrClosed]). It is called by one goroutine at a time.
func (a *alarm) next() error {
	if err := a.control(unix.EPOLL_CTL_MOD, unix.EPOLLIN); err != nil {
		return err
	}
	var err error
	cerr := a.conn.Read(func(epfd uintptr) bool {
		var n int
		n, err = unix.EpollWait(int(epfd), make([]unix.EpollEvent, 1), 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if cerr != nil {
		return cerr
	}
	return os.NewSyscallError("epoll_wait", err)
}

// close ends the waiting. The descriptor stays open.
func (a *alarm) close() error { return a.file.Close() }
