//go:build unix

package actors

import (
	"os"
	"syscall"
)

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
