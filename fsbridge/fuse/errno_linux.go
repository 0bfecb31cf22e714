package fuse

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/codeagent/sandbox/fsbridge"
)

// errnos is the one table from errors to what the kernel is told. An errno
// inside an error comes first; see status.
var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{fsbridge.ErrDenied, syscall.EPERM},
	{fsbridge.ErrReadOnly, syscall.EROFS},
	{fsbridge.ErrNoSpace, syscall.ENOSPC},
	{fsbridge.ErrInterrupted, syscall.EINTR},
	{fsbridge.ErrFailed, syscall.EIO},
}

// status turns an error into the reply's status. ENOSYS never leaves this way:
// to the kernel it means "never ask again", and for OPEN it would hide writers
// from us.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch {
		case errno == syscall.ENOSYS:
			return fuse.Status(syscall.EOPNOTSUPP)
		case errno == 0 || errno >= 512:
			return fuse.EIO
		}
		return fuse.Status(errno)
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return fuse.Status(e.errno)
		}
	}
	return fuse.EIO
}

func errnoStatus(e syscall.Errno) fuse.Status { return fuse.Status(e) }
