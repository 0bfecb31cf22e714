package fsbridge

import (
	"errors"
	"syscall"
)

// errnos is the one table from errors to what a client is told. An errno inside an
// error comes first; see [Errno].
var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{ErrDenied, syscall.EPERM},
	{ErrReadOnly, syscall.EROFS},
	{ErrNoSpace, syscall.ENOSPC},
	{ErrInterrupted, syscall.EINTR},
	{ErrFailed, syscall.EIO},
}

// Errno returns what a client is told of an error of a bridge's operation, 0 for nil. It is
// never ENOSYS: to a kernel that means "never ask again", and for an open it would
// hide writers from us.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch {
		case errno == syscall.ENOSYS:
			return syscall.EOPNOTSUPP
		case errno == 0 || errno >= 512:
			return syscall.EIO
		}
		return errno
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	return syscall.EIO
}
