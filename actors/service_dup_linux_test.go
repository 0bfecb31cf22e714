package actors

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// dup is what a process has of a file that its caller closes.
func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	c, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("a service's output does not wait for room: flags %x, %v", flags, err)
		}
	})
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "dup")
}
