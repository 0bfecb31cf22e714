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
	f, err := os.OpenFile(name, flags, 0)
	for n := 0; n < tries && errors.Is(err, fs.ErrPermission); n++ {
		if n > 0 {
			runtime.Gosched()
		}
		f, err = briefly(name, flags)
	}
	return f, err
}

// briefly is one try. If the process is dumpable, it stays so: nobody has asked for more, or it is another thread's moment.
func briefly(name string, flags int) (*os.File, error) {
	if is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || is == 1 {
		return os.OpenFile(name, flags, 0)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, flags, 0)
	if perr := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); perr != nil && err == nil {
		return nil, errors.Join(perr, f.Close())
	}
	return f, err
}
