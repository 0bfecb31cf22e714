package paths

import (
	"fmt"
	"io/fs"
	"syscall"
)

// errnos are the errors of Linux that a request comes to, as this system knows them.
func errnos() map[string]syscall.Errno {
	return map[string]syscall.Errno{
		"E2BIG": syscall.E2BIG, "EACCES": syscall.EACCES, "EAGAIN": syscall.EAGAIN, "EBUSY": syscall.EBUSY, "EDQUOT": syscall.EDQUOT, "EEXIST": syscall.EEXIST, "EFBIG": syscall.EFBIG,
		"EIO": syscall.EIO, "EISDIR": syscall.EISDIR, "ELOOP": syscall.ELOOP, "EMFILE": syscall.EMFILE, "EMLINK": syscall.EMLINK, "ENAMETOOLONG": syscall.ENAMETOOLONG,
		"ENFILE": syscall.ENFILE, "ENOENT": syscall.ENOENT, "ENOMEM": syscall.ENOMEM, "ENOSPC": syscall.ENOSPC, "ENOSYS": syscall.ENOSYS, "ENOTDIR": syscall.ENOTDIR, "ENOTEMPTY": syscall.ENOTEMPTY,
		"EOPNOTSUPP": syscall.EOPNOTSUPP, "EPERM": syscall.EPERM, "EROFS": syscall.EROFS, "ESTALE": syscall.ESTALE, "ETXTBSY": syscall.ETXTBSY, "EXDEV": syscall.EXDEV,
	}
}

// problem is what a request has come to, or nil.
func problem(r *Reply) error {
	switch r.Errno {
	case "":
		return nil
	case "EINVAL":
		if r.Irregular {
			return ErrIrregular
		}
		return fs.ErrInvalid
	}
	if e, known := errnos()[r.Errno]; known {
		return e
	}
	return fmt.Errorf("%w (%.20q)", syscall.EIO, r.Errno)
}
