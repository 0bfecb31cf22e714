package posix

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// native tells whether e is the host's error target: a status of NT, an error of Win32, or one of the numbers that package syscall
// has made up for the names of Unix.
func native(e Errno, target error) bool { return hosts(target) && from(target) == e }

// hosts tells whether an error is one of the host's.
func hosts(err error) bool {
	switch any(err).(type) {
	case windows.NTStatus, syscall.Errno:
		return true
	}
	return false
}

// from translates an error of a call.
func from(err error) error {
	var (
		number Errno
		status windows.NTStatus
		win32  syscall.Errno
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &number):
		return number
	case errors.As(err, &status):
		return translateStatus(status)
	case errors.As(err, &win32) && win32 >= syscall.APPLICATION_ERROR:
		return translateInvented(win32)
	case errors.As(err, &win32):
		return translateWin32(win32)
	}
	return err
}

// translateStatus returns Linux's number for a status of NT.
func translateStatus(status windows.NTStatus) Errno {
	switch status {
	case windows.STATUS_OBJECT_NAME_NOT_FOUND, windows.STATUS_OBJECT_PATH_NOT_FOUND, windows.STATUS_NO_SUCH_FILE,
		windows.STATUS_DELETE_PENDING, windows.STATUS_FILE_DELETED, windows.STATUS_BAD_NETWORK_NAME, windows.STATUS_BAD_NETWORK_PATH:
		return ENOENT
	case windows.STATUS_OBJECT_NAME_COLLISION:
		return EEXIST
	case windows.STATUS_NOT_A_DIRECTORY:
		return ENOTDIR
	case windows.STATUS_FILE_IS_A_DIRECTORY:
		return EISDIR
	case windows.STATUS_DIRECTORY_NOT_EMPTY:
		return ENOTEMPTY
	case windows.STATUS_SHARING_VIOLATION, windows.STATUS_FILE_LOCK_CONFLICT, windows.STATUS_USER_MAPPED_FILE:
		return EBUSY
	case windows.STATUS_LOCK_NOT_GRANTED:
		return EAGAIN
	case windows.STATUS_ACCESS_DENIED, windows.STATUS_CANNOT_DELETE, windows.STATUS_LOGON_FAILURE:
		return EACCES
	case windows.STATUS_PRIVILEGE_NOT_HELD:
		return EPERM
	case windows.STATUS_MEDIA_WRITE_PROTECTED:
		return EROFS
	case windows.STATUS_NOT_SAME_DEVICE:
		return EXDEV
	case windows.STATUS_REPARSE_POINT_ENCOUNTERED, windows.STATUS_STOPPED_ON_SYMLINK:
		return ELOOP
	case windows.STATUS_NAME_TOO_LONG:
		return ENAMETOOLONG
	}
	return translateMoreStatus(status)
}

func translateMoreStatus(status windows.NTStatus) Errno {
	switch status {
	case windows.STATUS_DISK_FULL:
		return ENOSPC
	case windows.STATUS_QUOTA_EXCEEDED:
		return EDQUOT
	case windows.STATUS_TOO_MANY_LINKS:
		return EMLINK
	case windows.STATUS_TOO_MANY_OPENED_FILES:
		return ENFILE
	case windows.STATUS_NO_MEMORY, windows.STATUS_INSUFFICIENT_RESOURCES:
		return ENOMEM
	case windows.STATUS_NO_SUCH_DEVICE:
		return ENODEV
	case windows.STATUS_INVALID_HANDLE, windows.STATUS_OBJECT_TYPE_MISMATCH, windows.STATUS_FILE_CLOSED:
		return EBADF
	case windows.STATUS_OBJECT_NAME_INVALID, windows.STATUS_OBJECT_PATH_INVALID, windows.STATUS_OBJECT_PATH_SYNTAX_BAD,
		windows.STATUS_INVALID_PARAMETER, windows.STATUS_NOT_A_REPARSE_POINT:
		return EINVAL
	case windows.STATUS_NOT_IMPLEMENTED, windows.STATUS_NOT_SUPPORTED, windows.STATUS_INVALID_INFO_CLASS,
		windows.STATUS_INVALID_DEVICE_REQUEST, windows.STATUS_EAS_NOT_SUPPORTED:
		return EOPNOTSUPP
	case windows.STATUS_FILE_INVALID, windows.STATUS_NETWORK_NAME_DELETED:
		return ESTALE
	}
	return EIO
}

// translateWin32 returns Linux's number for an error of Win32.
func translateWin32(e syscall.Errno) Errno {
	switch e {
	case windows.ERROR_FILE_NOT_FOUND, windows.ERROR_PATH_NOT_FOUND, windows.ERROR_DELETE_PENDING, windows.ERROR_BAD_NETPATH,
		windows.ERROR_BAD_NET_NAME, windows.ERROR_INVALID_DRIVE:
		return ENOENT
	case windows.ERROR_FILE_EXISTS, windows.ERROR_ALREADY_EXISTS:
		return EEXIST
	case windows.ERROR_DIRECTORY:
		return ENOTDIR
	case windows.ERROR_DIR_NOT_EMPTY:
		return ENOTEMPTY
	case windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION, windows.ERROR_BUSY, windows.ERROR_USER_MAPPED_FILE:
		return EBUSY
	case windows.ERROR_ACCESS_DENIED, windows.ERROR_CURRENT_DIRECTORY:
		return EACCES
	case windows.ERROR_PRIVILEGE_NOT_HELD:
		return EPERM
	case windows.ERROR_WRITE_PROTECT:
		return EROFS
	case windows.ERROR_NOT_SAME_DEVICE:
		return EXDEV
	case windows.ERROR_CANT_RESOLVE_FILENAME, windows.ERROR_STOPPED_ON_SYMLINK:
		return ELOOP
	case windows.ERROR_FILENAME_EXCED_RANGE:
		return ENAMETOOLONG
	}
	return translateMoreWin32(e)
}

func translateMoreWin32(e syscall.Errno) Errno {
	switch e {
	case windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL:
		return ENOSPC
	case windows.ERROR_DISK_QUOTA_EXCEEDED:
		return EDQUOT
	case windows.ERROR_TOO_MANY_LINKS:
		return EMLINK
	case windows.ERROR_TOO_MANY_OPEN_FILES:
		return ENFILE
	case windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_OUTOFMEMORY, windows.ERROR_NO_SYSTEM_RESOURCES,
		windows.ERROR_COMMITMENT_LIMIT, windows.ERROR_NOT_ENOUGH_QUOTA:
		return ENOMEM
	case windows.ERROR_DEV_NOT_EXIST:
		return ENODEV
	case windows.ERROR_INVALID_HANDLE:
		return EBADF
	case windows.ERROR_INVALID_PARAMETER, windows.ERROR_INVALID_NAME, windows.ERROR_BAD_PATHNAME, windows.ERROR_NEGATIVE_SEEK,
		windows.ERROR_NOT_A_REPARSE_POINT, windows.ERROR_MAPPED_ALIGNMENT:
		return EINVAL
	case windows.ERROR_NOT_SUPPORTED, windows.ERROR_CALL_NOT_IMPLEMENTED, windows.ERROR_INVALID_FUNCTION:
		return EOPNOTSUPP
	case windows.ERROR_FILE_INVALID, windows.ERROR_NETNAME_DELETED:
		return ESTALE
	}
	return EIO
}

// translateInvented returns Linux's number for one that package syscall has made up.
func translateInvented(e syscall.Errno) Errno {
	for _, pair := range []struct {
		invented syscall.Errno
		number   Errno
	}{
		{syscall.EPERM, EPERM}, {syscall.EINTR, EINTR}, {syscall.EIO, EIO}, {syscall.ENXIO, ENXIO}, {syscall.E2BIG, E2BIG},
		{syscall.EBADF, EBADF}, {syscall.EAGAIN, EAGAIN}, {syscall.ENOMEM, ENOMEM}, {syscall.EACCES, EACCES}, {syscall.EBUSY, EBUSY},
		{syscall.EEXIST, EEXIST}, {syscall.EXDEV, EXDEV}, {syscall.ENODEV, ENODEV}, {syscall.EISDIR, EISDIR}, {syscall.EINVAL, EINVAL},
		{syscall.ENFILE, ENFILE}, {syscall.EMFILE, EMFILE}, {syscall.ENOTTY, ENOTTY}, {syscall.ETXTBSY, ETXTBSY}, {syscall.EFBIG, EFBIG},
		{syscall.ENOSPC, ENOSPC}, {syscall.EROFS, EROFS}, {syscall.EMLINK, EMLINK}, {syscall.ERANGE, ERANGE},
		{syscall.ENAMETOOLONG, ENAMETOOLONG}, {syscall.ENOLCK, ENOLCK}, {syscall.ENOSYS, ENOSYS}, {syscall.ENOTEMPTY, ENOTEMPTY},
		{syscall.ELOOP, ELOOP}, {syscall.ENODATA, ENODATA}, {syscall.EPROTO, EPROTO}, {syscall.EILSEQ, EILSEQ},
		{syscall.EMSGSIZE, EMSGSIZE}, {syscall.EOPNOTSUPP, EOPNOTSUPP}, {syscall.ENOTSUP, EOPNOTSUPP}, {syscall.ENOTCONN, ENOTCONN},
		{syscall.ESTALE, ESTALE}, {syscall.EDQUOT, EDQUOT}, {syscall.EWOULDBLOCK, EWOULDBLOCK},
	} {
		if pair.invented == e {
			return pair.number
		}
	}
	return EIO
}
