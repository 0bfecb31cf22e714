package mcp

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeBytes is how much a pipe holds unless somebody asked for another size.
const pipeBytes = 64 << 10

// pipe is os.Pipe for a command to write to: the end that is written is blocking
// from the start, as it has to be there, and not watched by Go's poller.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		_ = syscall.Close(fds[0])
		_ = syscall.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// asNew reports whether the end of a pipe that commands write to is as pipe made
// it. They share its flags, size and permissions with us, and may have changed
// them: many runtimes make their stdout non-blocking.
func asNew(w *os.File) bool {
	fd := w.Fd()
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil || flags&^unix.O_LARGEFILE != unix.O_WRONLY {
		return false
	}
	size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
	var st unix.Stat_t
	return err == nil && size == pipeBytes && unix.Fstat(int(fd), &st) == nil && st.Mode == unix.S_IFIFO|0o600
}
