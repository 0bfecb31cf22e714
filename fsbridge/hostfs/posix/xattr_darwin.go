package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes have the names here that they have on macOS: a guest's "user.a" is called so. What Linux's kernel means by other
// namespaces macOS does not keep.
func foreignAttr(attr string) bool {
	for _, space := range []string{"system.", "security.", "trusted."} {
		if strings.HasPrefix(attr, space) {
			return true
		}
	}
	return false
}

func systemFgetxattr(fd int, attr string, buf []byte) (int, error) {
	if foreignAttr(attr) {
		return 0, EOPNOTSUPP
	}
	n, err := unix.Fgetxattr(fd, attr, buf)
	return n, from(err)
}

// systemFsetxattr looks first where flags say so: unix.Fsetxattr takes none.
func systemFsetxattr(fd int, attr string, value []byte, flags int) error {
	if foreignAttr(attr) {
		return EOPNOTSUPP
	}
	if flags&(XATTR_CREATE|XATTR_REPLACE) != 0 {
		switch _, err := unix.Fgetxattr(fd, attr, nil); {
		case err == nil && flags&XATTR_CREATE != 0:
			return EEXIST
		case err != nil && (err != unix.ENOATTR || flags&XATTR_REPLACE != 0):
			return from(err)
		}
	}
	return from(unix.Fsetxattr(fd, attr, value, 0))
}

// withName runs f with a descriptor of name itself, also of a symlink. EPERM for what has no attributes on macOS.
func withName(dirfd int, name string, f func(fd int) error) error {
	var st Stat_t
	if err := systemFstatat(dirfd, name, &st); err != nil {
		return err
	}
	switch st.Mode & S_IFMT {
	case S_IFREG, S_IFDIR, S_IFLNK:
	default:
		return EPERM
	}
	const itself = unix.O_SYMLINK | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|itself, 0)
	if err == unix.EACCES && st.Mode&S_IFMT == S_IFREG {
		fd, err = unix.Openat(dirfd, name, unix.O_WRONLY|itself, 0)
	}
	if err != nil {
		return from(err)
	}
	defer unix.Close(fd)
	var now Stat_t
	if err := systemFstat(fd, &now); err != nil {
		return err
	}
	if inodeOf(&now) != inodeOf(&st) {
		return ESTALE
	}
	return f(fd)
}

func systemGetxattr(dirfd int, name, attr string, buf []byte) (n int, err error) {
	err = withName(dirfd, name, func(fd int) error { n, err = systemFgetxattr(fd, attr, buf); return err })
	if err == EPERM {
		err = ENODATA
	}
	return n, err
}

func systemListxattr(dirfd int, name string, buf []byte) (n int, err error) {
	err = withName(dirfd, name, func(fd int) error { n, err = unix.Flistxattr(fd, buf); return from(err) })
	if err == EPERM {
		return 0, nil
	}
	return n, err
}

func systemSetxattr(dirfd int, name, attr string, value []byte, flags int) error {
	return withName(dirfd, name, func(fd int) error { return systemFsetxattr(fd, attr, value, flags) })
}

func systemRemovexattr(dirfd int, name, attr string) error {
	return withName(dirfd, name, func(fd int) error { return from(unix.Fremovexattr(fd, attr)) })
}
