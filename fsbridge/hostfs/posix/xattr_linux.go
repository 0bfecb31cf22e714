//go:build !portable

package posix

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namePath leads to name in dirfd, for calls that do not follow it.
func namePath(dirfd int, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(dirfd) + "/" + name
}

// Getxattr reads an attribute of name in dirfd, or of what is open as dirfd (also with O_PATH, save a symlink) if the name is
// empty. A nil buf asks for the size.
func Getxattr(dirfd int, name, attr string, buf []byte) (int, error) {
	if name != "" {
		return unix.Lgetxattr(namePath(dirfd, name), attr, buf)
	}
	n, err := unix.Fgetxattr(dirfd, attr, buf)
	if err == unix.EBADF {
		return unix.Getxattr(procPath(dirfd), attr, buf)
	}
	return n, err
}

// Listxattr reads the names of attributes, each with a NUL behind it.
func Listxattr(dirfd int, name string, buf []byte) (int, error) {
	if name != "" {
		return unix.Llistxattr(namePath(dirfd, name), buf)
	}
	n, err := unix.Flistxattr(dirfd, buf)
	if err == unix.EBADF {
		return unix.Listxattr(procPath(dirfd), buf)
	}
	return n, err
}

// Setxattr sets an attribute; flags are XATTR_CREATE or XATTR_REPLACE.
func Setxattr(dirfd int, name, attr string, value []byte, flags int) error {
	if name != "" {
		return unix.Lsetxattr(namePath(dirfd, name), attr, value, flags)
	}
	err := unix.Fsetxattr(dirfd, attr, value, flags)
	if err == unix.EBADF {
		return unix.Setxattr(procPath(dirfd), attr, value, flags)
	}
	return err
}

// Removexattr removes an attribute.
func Removexattr(dirfd int, name, attr string) error {
	if name != "" {
		return unix.Lremovexattr(namePath(dirfd, name), attr)
	}
	err := unix.Fremovexattr(dirfd, attr)
	if err == unix.EBADF {
		return unix.Removexattr(procPath(dirfd), attr)
	}
	return err
}

const defaultACL = "system.posix_acl_default\x00"

// HasDefaultACL tells whether the directory dirfd has a default access list. It allocates nothing.
func HasDefaultACL(dirfd int) bool {
	text := unsafe.StringData(defaultACL)
	for {
		_, _, errno := unix.Syscall6(unix.SYS_FGETXATTR, uintptr(dirfd), uintptr(unsafe.Pointer(text)), 0, 0, 0, 0)
		switch errno {
		case unix.EINTR:
		case unix.EBADF: // O_PATH
			_, err := unix.Getxattr(procPath(dirfd), defaultACL[:len(defaultACL)-1], nil)
			return err == nil
		default:
			return errno == 0
		}
	}
}

// Flags returns the flags (chattr) of what is open as fd.
func Flags(fd int) (uint32, error) { return unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS) }

// SetFlags sets the flags (chattr) of what is open as fd.
func SetFlags(fd int, flags uint32) error {
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags))
}
