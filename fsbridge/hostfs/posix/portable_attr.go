//go:build darwin || (linux && portable)

package posix

import (
	"math"

	"golang.org/x/sys/unix"
)

// Chmod sets the twelve bits of the mode of what is open as fd. A symlink gives EOPNOTSUPP.
func Chmod(fd int, mode uint32) error {
	if fd < firstHeld {
		return from(unix.Fchmod(fd, mode))
	}
	return holding.by(fd, func(dirfd int, name string, st *Stat_t) error {
		if st.Mode&S_IFMT == S_IFLNK {
			return EOPNOTSUPP
		}
		return systemChmod(dirfd, name, mode)
	})
}

// Chown sets owner and group of what is open as fd; -1 leaves one.
func Chown(fd, uid, gid int) error {
	if fd < firstHeld {
		return from(unix.Fchown(fd, uid, gid))
	}
	return holding.by(fd, func(dirfd int, name string, _ *Stat_t) error {
		return from(unix.Fchownat(dirfd, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW))
	})
}

// Utimens sets the times of access and of modification of what is open as fd.
func Utimens(fd int, times *[2]Timespec) error {
	if fd < firstHeld {
		return systemUtimens(fd, times)
	}
	return holding.by(fd, func(dirfd int, name string, _ *Stat_t) error { return systemUtimensat(dirfd, name, times) })
}

// eitherWay runs one of two functions: that for a descriptor if the name is empty and dirfd is the system's own, else that for a name.
func eitherWay(dirfd int, name string, fd func(fd int) error, at func(dirfd int, name string) error) error {
	switch {
	case name != "":
		return holding.at(dirfd, func(dirfd int) error { return at(dirfd, name) })
	case dirfd < firstHeld:
		return fd(dirfd)
	}
	return holding.by(dirfd, func(dirfd int, name string, _ *Stat_t) error { return at(dirfd, name) })
}

// Getxattr reads an attribute of name in dirfd, or of what is open as dirfd if the name is empty. A nil buf asks for the size.
func Getxattr(dirfd int, name, attr string, buf []byte) (n int, err error) {
	err = eitherWay(dirfd, name, func(fd int) error {
		n, err = systemFgetxattr(fd, attr, buf)
		return err
	}, func(dirfd int, name string) error {
		n, err = systemGetxattr(dirfd, name, attr, buf)
		return err
	})
	return n, err
}

// Listxattr reads the names of attributes, each with a NUL behind it.
func Listxattr(dirfd int, name string, buf []byte) (n int, err error) {
	err = eitherWay(dirfd, name, func(fd int) error {
		n, err = unix.Flistxattr(fd, buf)
		return from(err)
	}, func(dirfd int, name string) error {
		n, err = systemListxattr(dirfd, name, buf)
		return err
	})
	return n, err
}

// Setxattr sets an attribute; flags are XATTR_CREATE or XATTR_REPLACE.
func Setxattr(dirfd int, name, attr string, value []byte, flags int) error {
	return eitherWay(dirfd, name, func(fd int) error {
		return systemFsetxattr(fd, attr, value, flags)
	}, func(dirfd int, name string) error {
		return systemSetxattr(dirfd, name, attr, value, flags)
	})
}

// Removexattr removes an attribute.
func Removexattr(dirfd int, name, attr string) error {
	return eitherWay(dirfd, name, func(fd int) error {
		return from(unix.Fremovexattr(fd, attr))
	}, func(dirfd int, name string) error {
		return systemRemovexattr(dirfd, name, attr)
	})
}

// HasDefaultACL tells whether the directory dirfd has a default access list, as no directory of macOS has.
func HasDefaultACL(dirfd int) bool {
	n, err := Getxattr(dirfd, "", "system.posix_acl_default", nil)
	return err == nil && n > 0
}

// Flags returns the flags (chattr) of what is open as fd.
func Flags(fd int) (uint32, error) {
	if fd >= firstHeld {
		return 0, EBADF
	}
	return systemFlagsOf(fd)
}

// SetFlags sets the flags (chattr) of what is open as fd.
func SetFlags(fd int, flags uint32) error {
	if fd >= firstHeld {
		return EBADF
	}
	return systemSetFlags(fd, flags)
}

// CreateAs runs create, which makes one file. It stays ours: no thread can be another user for a while on macOS, and who owns a file
// is kept beside it there (package posixmeta).
func CreateAs(_, _ uint32, create func() error) error { return create() }

// MountEpoch is empty: no mount has a number that is never used again.
func MountEpoch(int) string { return "" }

// FineTimes returns false: nobody has measured it.
func FineTimes(int) bool { return false }

// Written returns true: no call tells who else can write to a file.
func Written(int) (written, known bool) { return true, false }

// SetLock sets a record lock of this open file (F_OFD_SETLK). Where another has it, EAGAIN or EACCES says so.
func SetLock(fd int, l Lock) error {
	k := l.flock()
	return from(unix.FcntlFlock(uintptr(fd), systemSetLock, &k))
}

// GetLock returns a lock that is in the way of l, or one of type F_UNLCK.
func GetLock(fd int, l Lock) (Lock, error) {
	k := l.flock()
	if err := unix.FcntlFlock(uintptr(fd), systemGetLock, &k); err != nil {
		return Lock{}, from(err)
	}
	found := Lock{Type: F_UNLCK, Start: k.Start, Length: k.Len, PID: k.Pid}
	switch k.Type {
	case unix.F_RDLCK:
		found.Type = F_RDLCK
	case unix.F_WRLCK:
		found.Type = F_WRLCK
	}
	return found, nil
}

func (l Lock) flock() unix.Flock_t {
	k := unix.Flock_t{Type: unix.F_UNLCK, Whence: unix.SEEK_SET, Start: l.Start, Len: l.Length}
	switch l.Type {
	case F_RDLCK:
		k.Type = unix.F_RDLCK
	case F_WRLCK:
		k.Type = unix.F_WRLCK
	}
	return k
}

// OpenFiles is how many descriptors the process may have. False says that nobody limits them.
func OpenFiles() (uint64, bool) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil || r.Cur >= math.MaxInt64 {
		return 0, false
	}
	return r.Cur, true
}

// Umask sets the modes' bits that new files do not get, and returns those before.
func Umask(mask int) int { return unix.Umask(mask) }
