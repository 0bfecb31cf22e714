package filters

import (
	"errors"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// others is a file of another user's process. Where /proc hides it (hidepid), it would hide this process too, from the user's other sessions, which look there
// whether this one is alive.
const others = "/proc/1/stat"

// Untraced makes this process not dumpable, and reports whether it is. Again does no harm.
func Untraced() bool {
	if unix.Access(others, unix.R_OK) != nil {
		return false
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) == nil
}

// tries bounds how often [OpenUntraced] tries: another thread's moment may end within ours.
const tries = 1000

// OpenUntraced opens a file in /proc of a child that shares this process's memory, or has a copy of it.
func OpenUntraced(name string, flags int) (*os.File, error) {
	return untraced(func() (*os.File, error) { return os.OpenFile(name, flags, 0) })
}

// CopyUntraced copies a descriptor of such a child.
func CopyUntraced(pid, fd int) (*os.File, error) {
	child, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(child)
	return untraced(func() (*os.File, error) {
		own, err := unix.PidfdGetfd(child, fd, 0)
		if err != nil {
			return nil, os.NewSyscallError("pidfd_getfd", err)
		}
		return os.NewFile(uintptr(own), "copy"), nil
	})
}

func untraced(open func() (*os.File, error)) (*os.File, error) {
	f, err := open()
	for n := 0; n < tries && errors.Is(err, fs.ErrPermission); n++ {
		if n > 0 {
			runtime.Gosched()
		}
		f, err = briefly(open)
	}
	return f, err
}

// briefly is one try. If the process is dumpable, it stays so: nobody has asked for more, or it is another thread's moment.
func briefly(open func() (*os.File, error)) (*os.File, error) {
	if is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || is == 1 {
		return open()
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	f, err := open()
	if perr := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); perr != nil && err == nil {
		return nil, errors.Join(perr, f.Close())
	}
	return f, err
}
