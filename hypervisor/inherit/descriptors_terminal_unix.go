//go:build unix

package inherit

import "syscall"

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = syscall.Close(fd)
	return true
}
