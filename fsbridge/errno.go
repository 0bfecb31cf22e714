package fsbridge

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// errnos is the one table from errors to what a client is told. An errno inside an
// error comes first; see [Errno].
var errnos = []struct {
	err   error
	errno posix.Errno
}{
	{ErrDenied, posix.EPERM},
	{ErrReadOnly, posix.EROFS},
	{ErrNoSpace, posix.ENOSPC},
	{ErrInterrupted, posix.EINTR},
	{ErrFailed, posix.EIO},
}

// Errno returns what a client is told of an error of a bridge's operation, 0 for nil. It is
// never ENOSYS: to a kernel that means "never ask again", and for an open it would
// hide writers from us.
func Errno(err error) posix.Errno {
	if err == nil {
		return 0
	}
	var errno posix.Errno
	if errors.As(err, &errno) {
		switch {
		case errno == posix.ENOSYS:
			return posix.EOPNOTSUPP
		case errno == 0 || errno >= 512:
			return posix.EIO
		}
		return errno
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	return posix.EIO
}
