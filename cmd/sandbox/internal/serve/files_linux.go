package serve

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// takeStdout gives stdout to the protocol alone: what anything else writes there
// goes to stderr.
func takeStdout(stdout, stderr *os.File) (*os.File, error) {
	own, err := pollable(stdout, os.O_WRONLY, stderr)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(int(stderr.Fd()), int(stdout.Fd()), 0); err != nil {
		own.Close()
		return nil, os.NewSyscallError("dup3", err)
	}
	return own, nil
}

// takeStdin returns stdin for the protocol, to be closed by the caller.
func takeStdin(stdin, stderr *os.File) (*os.File, error) { return pollable(stdin, os.O_RDONLY, stderr) }

// pollable returns another descriptor of f, if it is a pipe or a socket one that
// the runtime can wait for without a thread: then a request goes from reading to
// answering on the thread that has read it. A thread in a blocking read holds a
// processor that the runtime needs tens of microseconds to take back, and one that
// returns from it may find none.
//
// O_NONBLOCK belongs to what was opened, which other processes may share: a pipe
// is opened once more for us alone, and a socket, which cannot be, is left as it
// is where it is stderr too.
func pollable(f *os.File, mode int, stderr *os.File) (*os.File, error) {
	var st, other unix.Stat_t
	fd := int(f.Fd())
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFIFO {
		own, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil { // or it is another user's, perhaps
			return own, nil
		}
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK && (unix.Fstat(int(stderr.Fd()), &other) != nil || other.Dev != st.Dev || other.Ino != st.Ino) {
		_ = unix.SetNonblock(own, true) // if not, it blocks
	}
	return os.NewFile(uintptr(own), "protocol"), nil
}
