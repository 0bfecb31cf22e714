package posix

import (
	"errors"

	"golang.org/x/sys/unix"
)

// native tells whether e is the host's error target.
func native(e Errno, target error) bool {
	host, ok := target.(unix.Errno)
	return ok && translate(host) == e
}

// from translates an error of a call.
func from(err error) error {
	var host unix.Errno
	if err == nil || !errors.As(err, &host) {
		return err
	}
	return translate(host)
}

// translate returns Linux's number for one of macOS.
func translate(host unix.Errno) Errno {
	switch host {
	case unix.EPERM:
		return EPERM
	case unix.ENOENT:
		return ENOENT
	case unix.EINTR:
		return EINTR
	case unix.EIO:
		return EIO
	case unix.ENXIO:
		return ENXIO
	case unix.E2BIG:
		return E2BIG
	case unix.EBADF:
		return EBADF
	case unix.EAGAIN:
		return EAGAIN
	case unix.ENOMEM:
		return ENOMEM
	case unix.EACCES, unix.EAUTH:
		return EACCES
	case unix.EBUSY:
		return EBUSY
	case unix.EEXIST:
		return EEXIST
	case unix.EXDEV:
		return EXDEV
	case unix.ENODEV:
		return ENODEV
	case unix.ENOTDIR:
		return ENOTDIR
	case unix.EISDIR:
		return EISDIR
	case unix.EINVAL:
		return EINVAL
	}
	return translateMore(host)
}

func translateMore(host unix.Errno) Errno {
	switch host {
	case unix.ENFILE:
		return ENFILE
	case unix.EMFILE:
		return EMFILE
	case unix.ENOTTY:
		return ENOTTY
	case unix.ETXTBSY:
		return ETXTBSY
	case unix.EFBIG:
		return EFBIG
	case unix.ENOSPC:
		return ENOSPC
	case unix.EROFS:
		return EROFS
	case unix.EMLINK:
		return EMLINK
	case unix.ERANGE:
		return ERANGE
	case unix.ENAMETOOLONG:
		return ENAMETOOLONG
	case unix.ENOLCK:
		return ENOLCK
	case unix.ENOSYS:
		return ENOSYS
	case unix.ENOTEMPTY:
		return ENOTEMPTY
	case unix.ELOOP:
		return ELOOP
	case unix.ENOATTR:
		return ENODATA
	case unix.EILSEQ:
		return EILSEQ
	case unix.EMSGSIZE:
		return EMSGSIZE
	case unix.ENOTSUP, unix.EOPNOTSUPP:
		return EOPNOTSUPP
	case unix.ENOTCONN:
		return ENOTCONN
	case unix.ESTALE:
		return ESTALE
	case unix.EDQUOT:
		return EDQUOT
	}
	return EIO
}
