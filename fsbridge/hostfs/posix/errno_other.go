//go:build !linux

package posix

import (
	"errors"
	"io/fs"
	"strconv"
)

// Errno is an error of a call, by Linux's number.
type Errno uintptr

// The errors.
const (
	EPERM        = Errno(1)
	ENOENT       = Errno(2)
	EINTR        = Errno(4)
	EIO          = Errno(5)
	ENXIO        = Errno(6)
	E2BIG        = Errno(7)
	EBADF        = Errno(9)
	EAGAIN       = Errno(11)
	ENOMEM       = Errno(12)
	EACCES       = Errno(13)
	EBUSY        = Errno(16)
	EEXIST       = Errno(17)
	EXDEV        = Errno(18)
	ENODEV       = Errno(19)
	ENOTDIR      = Errno(20)
	EISDIR       = Errno(21)
	EINVAL       = Errno(22)
	ENFILE       = Errno(23)
	EMFILE       = Errno(24)
	ENOTTY       = Errno(25)
	ETXTBSY      = Errno(26)
	EFBIG        = Errno(27)
	ENOSPC       = Errno(28)
	EROFS        = Errno(30)
	EMLINK       = Errno(31)
	ERANGE       = Errno(34)
	ENAMETOOLONG = Errno(36)
	ENOLCK       = Errno(37)
	ENOSYS       = Errno(38)
	ENOTEMPTY    = Errno(39)
	ELOOP        = Errno(40)
	ENODATA      = Errno(61)
	EPROTO       = Errno(71)
	EILSEQ       = Errno(84)
	EMSGSIZE     = Errno(90)
	EOPNOTSUPP   = Errno(95)
	ENOTCONN     = Errno(107)
	ESTALE       = Errno(116)
	EDQUOT       = Errno(122)

	EWOULDBLOCK = EAGAIN
	ENOTSUP     = EOPNOTSUPP
)

// Error returns the words of Linux.
func (e Errno) Error() string {
	switch e {
	case EPERM:
		return "operation not permitted"
	case ENOENT:
		return "no such file or directory"
	case EINTR:
		return "interrupted system call"
	case EIO:
		return "input/output error"
	case ENXIO:
		return "no such device or address"
	case E2BIG:
		return "argument list too long"
	case EBADF:
		return "bad file descriptor"
	case EAGAIN:
		return "resource temporarily unavailable"
	case ENOMEM:
		return "cannot allocate memory"
	case EACCES:
		return "permission denied"
	case EBUSY:
		return "device or resource busy"
	case EEXIST:
		return "file exists"
	case EXDEV:
		return "invalid cross-device link"
	case ENODEV:
		return "no such device"
	case ENOTDIR:
		return "not a directory"
	case EISDIR:
		return "is a directory"
	case EINVAL:
		return "invalid argument"
	case ENFILE:
		return "too many open files in system"
	case EMFILE:
		return "too many open files"
	case ENOTTY:
		return "inappropriate ioctl for device"
	case ETXTBSY:
		return "text file busy"
	case EFBIG:
		return "file too large"
	case ENOSPC:
		return "no space left on device"
	case EROFS:
		return "read-only file system"
	case EMLINK:
		return "too many links"
	case ERANGE:
		return "numerical result out of range"
	case ENAMETOOLONG:
		return "file name too long"
	case ENOLCK:
		return "no locks available"
	case ENOSYS:
		return "function not implemented"
	case ENOTEMPTY:
		return "directory not empty"
	case ELOOP:
		return "too many levels of symbolic links"
	case ENODATA:
		return "no data available"
	case EPROTO:
		return "protocol error"
	case EILSEQ:
		return "invalid or incomplete multibyte or wide character"
	case EMSGSIZE:
		return "message too long"
	case EOPNOTSUPP:
		return "operation not supported"
	case ENOTCONN:
		return "transport endpoint is not connected"
	case ESTALE:
		return "stale file handle"
	case EDQUOT:
		return "disk quota exceeded"
	}
	return "errno " + strconv.Itoa(int(e))
}

// Is tells which error of the standard library, and which one of the host's numbers, it is.
func (e Errno) Is(target error) bool {
	switch target {
	case fs.ErrPermission:
		return e == EACCES || e == EPERM
	case fs.ErrExist:
		return e == EEXIST || e == ENOTEMPTY
	case fs.ErrNotExist:
		return e == ENOENT
	case errors.ErrUnsupported:
		return e == ENOSYS || e == EOPNOTSUPP
	}
	return native(e, target)
}
