//go:build unix

package actors

import (
	"os"
	"syscall"
	"time"
)

// readNow reads what a pipe holds already; 0 if there is nothing.
func readNow(r *os.File, buf []byte) (n int) {
	c, err := r.SyscallConn()
	if err == nil {
		err = r.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return 0
	}
	_ = c.Read(func(fd uintptr) bool { // once
		n, err = syscall.Read(int(fd), buf)
		return true
	})
	return max(n, 0)
}

// block makes the end of a pipe that a service writes to wait for room, as programs
// expect it.
func block(w *os.File) error {
	c, err := w.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = syscall.SetNonblock(int(fd), false) }); err != nil {
		return err
	}
	return failed
}
