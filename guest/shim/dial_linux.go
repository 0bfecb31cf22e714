package shim

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// dialPatience is how long a listener of the guest's own loopback may take: one whose
// queue is full does not answer.
const dialPatience = 10 * time.Second

// dial connects to a port of the loopback and hands the connection over.
func (s *Server) dial(m *control.Message) {
	done := &control.Message{Type: control.TypeDone, Request: m.Request}
	fd, err := connect(m.Port)
	if err != nil {
		done.Error = err.Error()
		_ = s.link.Send(done) // the reader notices a broken channel
		return
	}
	f := os.NewFile(uintptr(fd), "connection")
	done.FDs = 1
	_ = s.link.Send(done, f) // as above
	_ = f.Close()
}

// connect tries both addresses of the loopback: a server that is for this guest alone
// listens at either.
func connect(port uint16) (int, error) {
	fd, err := connectTo(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)})
	if err == nil {
		return fd, nil
	}
	if fd, err6 := connectTo(unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: int(port)}); err6 == nil {
		return fd, nil
	}
	return -1, fmt.Errorf("port %d of the loopback: %w", port, err)
}

func connectTo(family int, to unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, to)
	if errors.Is(err, unix.EINPROGRESS) {
		err = await(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// await returns when the connection is made, or why it is not.
func await(fd int) error {
	for end := time.Now().Add(dialPatience); ; {
		left := time.Until(end)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(p, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n == 1 {
			errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && errno != 0 {
				err = syscall.Errno(errno)
			}
			return err
		}
	}
}
