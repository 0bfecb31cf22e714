//go:build unix && (!linux || portable)

package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// ownEnd is a descriptor of our own of the host's end of a command's terminal: its process may close that one. It takes deadlines.
func ownEnd(file *os.File) (own *os.File, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var dupErr error
	if err := conn.Control(func(f uintptr) { fd, dupErr = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, os.NewSyscallError("fcntl", dupErr)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}
