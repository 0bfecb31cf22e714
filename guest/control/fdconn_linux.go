package control

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxQueuedFDs bounds descriptors that have arrived and that no message has
// claimed; more are closed at once.
const maxQueuedFDs = 4 * maxFDs

// SocketPair returns the two ends of a stream that carries descriptors. Both
// are close-on-exec.
func SocketPair() (a, b *os.File, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(p[0]), "control"), os.NewFile(uintptr(p[1]), "control"), nil
}

// socket is an FDConn over a Unix stream socket.
type socket struct {
	f     *os.File
	rc    syscall.RawConn
	queue []int
}

var _ FDConn = (*socket)(nil)

// NewFDConn makes a connection of a non-blocking Unix stream socket, which it
// then owns. Reading and TakeFDs belong to one goroutine.
func NewFDConn(f *os.File) (FDConn, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &socket{f: f, rc: rc}, nil
}

// Close closes the socket and the descriptors nobody took.
func (s *socket) Close() error { return s.f.Close() }

// SetWriteDeadline bounds blocked writes.
func (s *socket) SetWriteDeadline(t time.Time) error { return s.f.SetWriteDeadline(t) }

// Write implements io.Writer.
func (s *socket) Write(p []byte) (int, error) { return s.f.Write(p) }

// Read implements io.Reader and collects descriptors.
func (s *socket) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(maxFDs*4))
	var n, oobn int
	var rerr error
	err := s.rc.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), p, oob, unix.MSG_CMSG_CLOEXEC)
			if rerr != unix.EINTR {
				return rerr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = rerr
	}
	if err != nil {
		s.dropFDs()
		return 0, err
	}
	if oobn > 0 {
		s.collect(oob[:oobn])
	}
	if n == 0 && len(p) > 0 {
		s.dropFDs()
		return 0, io.EOF
	}
	return n, nil
}

func (s *socket) collect(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if len(s.queue) >= maxQueuedFDs {
				_ = unix.Close(fd)
				continue
			}
			s.queue = append(s.queue, fd)
		}
	}
}

func (s *socket) dropFDs() {
	for _, fd := range s.queue {
		_ = unix.Close(fd)
	}
	s.queue = nil
}

// TakeFDs implements FDConn.
func (s *socket) TakeFDs(n int) ([]*os.File, bool) {
	if n > len(s.queue) {
		s.dropFDs() // whose they are is not known any more
		return nil, false
	}
	files := make([]*os.File, n)
	for i := range files {
		files[i] = os.NewFile(uintptr(s.queue[i]), "passed")
	}
	s.queue = append(s.queue[:0], s.queue[n:]...)
	return files, true
}

// WriteFDs implements FDConn.
func (s *socket) WriteFDs(p []byte, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		// As for a child of os/exec: Fd makes what Go made non-blocking blocking
		// again, since the other side shares that.
		fds[i] = int(f.Fd())
	}
	defer runtime.KeepAlive(files)
	n, err := 0, error(nil)
	werr := s.rc.Write(func(fd uintptr) bool {
		for {
			n, err = unix.SendmsgN(int(fd), p, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if werr != nil {
		return werr
	}
	if err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	if n < len(p) {
		_, err = s.f.Write(p[n:])
	}
	return err
}

func setTerminalSize(f *os.File, rows, cols uint16) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ierr error
	err = rc.Control(func(fd uintptr) {
		ierr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err == nil {
		err = os.NewSyscallError("ioctl TIOCSWINSZ", ierr)
	}
	return err
}

// asTerminal takes over a descriptor from the guest if it is what we asked for,
// the master of a pseudo-terminal, and makes it pollable.
func asTerminal(f *os.File) (*os.File, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	dup := -1
	var ierr error
	err = rc.Control(func(fd uintptr) {
		if _, ierr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); ierr != nil {
			return
		}
		if ierr = unix.SetNonblock(int(fd), true); ierr == nil {
			dup, ierr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		}
	})
	if err == nil {
		err = ierr
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the descriptor is no terminal: %v", ErrSequence, err)
	}
	_ = f.Close()
	return os.NewFile(uintptr(dup), "terminal"), nil
}
