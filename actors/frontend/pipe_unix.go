//go:build unix

package frontend

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Pipe is [os.Pipe], whose end r takes deadlines.
func Pipe() (r, w *os.File, err error) { return os.Pipe() }

// ReadNow reads what is in a pipe without waiting: io.EOF when nobody can write
// any more, ErrEmpty when somebody can.
func ReadNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, readErr = syscall.Read(int(fd), b)
			if !errors.Is(readErr, syscall.EINTR) {
				return true
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(readErr, syscall.EAGAIN):
		return 0, ErrEmpty
	case readErr != nil:
		return 0, readErr
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
