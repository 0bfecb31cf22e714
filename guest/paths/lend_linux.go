package paths

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// DeviceOf is the device that an open file is on, as [Request].Lend has it.
func DeviceOf(fd int) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Dev, err
}

// lends reports whether a file may be lent: the host wants it, and can have it.
func (s *server) lends(f *os.File) bool {
	if s.req.Lend == 0 {
		return false
	}
	device, err := DeviceOf(int(f.Fd()))
	return err == nil && device == s.req.Lend
}

// lend sends a frame with a descriptor. If the wire takes none, nothing was sent, and it returns false.
func (s *server) lend(kind byte, r *Reply, f *os.File) (sent bool, err error) {
	defer runtime.KeepAlive(f)
	r.Lent = true
	text, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	frame := append(begun(make([]byte, frameHead, frameHead+len(text)), kind, len(text)), text...)
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	out, ok := s.out.w.(syscall.Conn)
	if !ok {
		return false, nil
	}
	to, err := out.SyscallConn()
	if err != nil {
		return false, err
	}
	n, rights := 0, unix.UnixRights(int(f.Fd()))
	werr := to.Write(func(fd uintptr) bool {
		for err = unix.EINTR; err == unix.EINTR; {
			n, err = unix.SendmsgN(int(fd), frame, rights, nil, unix.MSG_NOSIGNAL)
		}
		return err != unix.EAGAIN
	})
	if errors.Join(werr, err) != nil {
		return false, nil //nolint:nilerr // no socket, or somebody forbids it: then it is sent as data
	}
	if n < len(frame) {
		_, err = s.out.w.Write(frame[n:])
	}
	return true, err
}

// sender is where frames go, one after the other.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer]: b is a frame.
func (s *sender) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
