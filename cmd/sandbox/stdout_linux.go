package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// takeStdout gives stdout to the protocol alone: what anything else writes there
// goes to stderr.
func takeStdout(stdout, stderr *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if err := unix.Dup3(int(stderr.Fd()), int(stdout.Fd()), 0); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("dup3", err)
	}
	return os.NewFile(uintptr(fd), "protocol"), nil
}
