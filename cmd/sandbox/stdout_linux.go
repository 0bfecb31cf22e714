package main

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeStdout gives stdout to the protocol alone: what anything else writes there
// goes to stderr.
func takeStdout(stdout, stderr *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	own := pollable(os.NewFile(uintptr(fd), "protocol"), os.O_WRONLY, stderr)
	if err := unix.Dup3(int(stderr.Fd()), int(stdout.Fd()), 0); err != nil {
		own.Close()
		return nil, os.NewSyscallError("dup3", err)
	}
	return own, nil
}

// takeStdin returns stdin for the protocol. It may be closed, or be stdin.
func takeStdin(stdin, stderr *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(stdin.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return pollable(os.NewFile(uintptr(fd), "protocol"), os.O_RDONLY, stderr), nil
}

// pollable returns f, or closes it and returns the same pipe or socket opened so
// that the runtime can wait for it without a thread: then a request goes from
// reading to answering on the thread that has read it. A thread in a blocking
// read holds a processor that the runtime needs tens of microseconds to take
// back, and one that returns from it may find none.
//
// O_NONBLOCK belongs to what was opened, which other processes may share: a pipe
// is opened once more for us alone, and a socket, which cannot be, is left as it
// is where it is stderr too.
func pollable(f *os.File, mode int, stderr *os.File) *os.File {
	var st, other unix.Stat_t
	fd := int(f.Fd())
	if unix.Fstat(fd, &st) != nil {
		return f
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		own, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return f // of another user, perhaps
		}
		f.Close()
		return own
	case unix.S_IFSOCK:
		if unix.Fstat(int(stderr.Fd()), &other) == nil && other.Dev == st.Dev && other.Ino == st.Ino {
			return f
		}
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil || syscall.SetNonblock(own, true) != nil {
			return f
		}
		f.Close()
		return os.NewFile(uintptr(own), "protocol")
	}
	return f
}
