//go:build amd64 || arm64

package inner

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// messageBytes is the largest 9P message we ask for; the kernel's limit for a
// descriptor is the same.
const messageBytes = 1 << 20

// mount9P mounts a folder that is behind a port. The kernel does not take the
// port itself, so two goroutines carry the bytes between it and a socket, for as
// long as the machine runs. One identity asks for all users (access=any): who may do
// what is decided here, by the modes. cache=mmap is the least that allows
// shared mappings: nothing but mapped pages is kept.
func mount9P(s control.MachineShare, flags uintptr) error {
	port, err := openPort(s.Tag)
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	fd := pair[1]
	defer unix.Close(fd) // the mount has a reference of its own
	for _, end := range pair {
		// A message in one piece, or there are more turns for each.
		_ = unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*messageBytes)
	}
	ours := os.NewFile(uintptr(pair[0]), "9p")
	go carry(ours, port)
	go carry(port, ours)
	data := fmt.Sprintf("trans=fd,rfdno=%d,wfdno=%d,version=9p2000.L,msize=%d,cache=mmap,access=any", fd, fd, messageBytes)
	err = unix.Mount(s.Tag, string(s.Path), "9p", flags, data)
	if err == unix.ENODEV {
		return fmt.Errorf("mounting %s: the guest's kernel has no 9P; 'sandbox guest build --generic' makes an image with one that has: %w", s.Path, err)
	}
	if err != nil {
		return fmt.Errorf("mounting %s (9P %s): %w", s.Path, s.Tag, err)
	}
	return nil
}

// carry copies until one side breaks: then the other ends, too, and the mount
// answers with errors. A port gives a page at a time: what is there already goes
// on in one piece, so that the other side wakes up once.
func carry(to, from *os.File) {
	defer to.Close()
	defer from.Close()
	conn, err := from.SyscallConn()
	if err != nil {
		return
	}
	for buf := make([]byte, messageBytes); ; {
		n := 0
		var failure error
		err := conn.Read(func(fd uintptr) bool {
			for n < len(buf) {
				m, err := unix.Read(int(fd), buf[n:])
				switch {
				case err == unix.EINTR:
					continue
				case err == unix.EAGAIN:
					return n > 0
				case err != nil || m == 0:
					failure = io.EOF
					return true
				}
				n += m
			}
			return true
		})
		if _, werr := to.Write(buf[:n]); err != nil || failure != nil || werr != nil {
			return
		}
	}
}
