package paths

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/paths"
)

// channel makes what the program writes to (out), and its other end, by which descriptors come, too.
func channel() (from incoming, out *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return &socket{lent: -1, f: os.NewFile(uintptr(fds[0]), "from the guest"), oob: make([]byte, unix.CmsgLen(4))}, os.NewFile(uintptr(fds[1]), "to the host"), nil
}

// socket reads what comes, and keeps one descriptor that comes with it. One goroutine reads; Close may come from any.
type socket struct {
	f   *os.File
	oob []byte // for one descriptor: the kernel throws others away

	mu     sync.Mutex
	lent   int // -1: none
	closed bool
}

// Read implements [io.Reader].
func (s *socket) Read(b []byte) (n int, err error) {
	rc, err := s.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	oobn := 0
	rerr := rc.Read(func(fd uintptr) bool {
		for err = unix.EINTR; err == unix.EINTR; {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), b, s.oob, unix.MSG_CMSG_CLOEXEC)
		}
		return err != unix.EAGAIN
	})
	if err = errors.Join(rerr, err); err != nil {
		return 0, err
	}
	if oobn > 0 {
		s.keep(s.oob[:oobn])
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// keep takes the descriptor that has come. One at a time is enough.
func (s *socket) keep(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return // and so no descriptor
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			s.mu.Lock()
			full := s.lent >= 0 || s.closed
			if !full {
				s.lent = fd
			}
			s.mu.Unlock()
			if full {
				drop(fd)
			}
		}
	}
}

// drop closes what may be a file of whatever file system: the end of it may wait for who serves that.
func drop(fd int) { go func() { _ = unix.Close(fd) }() }

// take returns the descriptor that came, if it is of a regular file on that device, which the host serves itself, and can be used so. Nothing is asked of the file's own file system before it is known to be that one: another could leave
// us waiting. The caller closes it.
func (s *socket) take(device uint64, write bool) (*os.File, error) {
	s.mu.Lock()
	fd := s.lent
	s.lent = -1
	s.mu.Unlock()
	if fd < 0 {
		return nil, errors.New("a descriptor that did not come")
	}
	if err := usable(fd, device, write); err != nil {
		drop(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "a file of the guest's"), nil // not before: it may ask whether the file can be polled
}

func usable(fd int, device uint64, write bool) error {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return err
	}
	if got := unix.Mkdev(st.Dev_major, st.Dev_minor); st.Mode&unix.S_IFMT != unix.S_IFREG || got != device {
		return fmt.Errorf("a file of mode %o on device %#x where a regular one on %#x was to come", st.Mode, got, device)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	access := flags & unix.O_ACCMODE
	if flags&(unix.O_PATH|unix.O_APPEND) != 0 || write && access == unix.O_RDONLY || !write && access == unix.O_WRONLY {
		return fmt.Errorf("a file that was opened with %#o", flags)
	}
	return nil
}

// Close implements [io.Closer].
func (s *socket) Close() error {
	s.mu.Lock()
	fd := s.lent
	s.lent, s.closed = -1, true
	s.mu.Unlock()
	if fd >= 0 {
		drop(fd)
	}
	return s.f.Close()
}

// DeviceOf is the device that an open file is on, for [Handlers].Device; 0 if that cannot be told.
func DeviceOf(fd int) uint64 {
	device, err := paths.DeviceOf(fd)
	if err != nil {
		return 0
	}
	return device
}
