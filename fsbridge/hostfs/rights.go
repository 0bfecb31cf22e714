package hostfs

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// An ordinary user is denied what the mode of their own file denies to its owner.
// The functions of this file change the mode and try again. For root, and for
// somebody else's file, they change nothing.

// AllowFD runs f. If that fails with EACCES and the inode behind fd, which may be
// O_PATH, denies its owner some of the rights bits (of 0700), it gives them and
// runs f again. given tells that the mode was changed and what it was: it is not
// changed back. Where the mode cannot be changed, f's error is returned.
func AllowFD(fd int, bits uint32, f func() error) (was uint32, given bool, err error) {
	if err = f(); !errors.Is(err, posix.EACCES) {
		return 0, false, err
	}
	if was, given = give(fd, bits); given {
		err = f()
	}
	return was, given, err
}

// AllowAt is [AllowFD] for name below dirfd.
func AllowAt(dirfd int, name string, bits uint32, f func() error) (was uint32, given bool, err error) {
	if err = f(); !errors.Is(err, posix.EACCES) {
		return 0, false, err
	}
	fd, oerr := OpenAt(dirfd, name, posix.O_PATH, 0)
	if oerr != nil {
		return 0, false, err
	}
	defer func() { _ = Close(fd) }()
	if was, given = give(fd, bits); given {
		err = f()
	}
	return was, given, err
}

// give adds the rights bits to the mode of the inode behind fd.
func give(fd int, bits uint32) (was uint32, given bool) {
	st, err := StatFD(fd)
	if err != nil || st.IsSymlink() || st.Mode&bits == bits || ChmodFD(fd, st.Mode|bits) != nil {
		return 0, false
	}
	return st.Mode & 0o7777, true
}

// LentFD is [AllowFD] for the time that f takes: the mode is given back before it
// returns. If ready is not nil, it is called before the mode is changed, and its
// error ends the call.
func LentFD(fd int, bits uint32, ready, f func() error) error {
	err := f()
	if !errors.Is(err, posix.EACCES) {
		return err
	}
	if st, serr := StatFD(fd); serr != nil || st.Mode&bits == bits {
		return err
	}
	if ready != nil {
		if err := ready(); err != nil {
			return err
		}
	}
	was, given := give(fd, bits)
	if !given {
		return err
	}
	return errors.Join(f(), ChmodFD(fd, was))
}

// ReopenLent is [ReopenFD] for the regular file or directory behind fd, which may
// deny itself to its owner: see [LentFD].
func ReopenLent(fd, flags int, ready func() error) (int, error) {
	bits := uint32(0o400)
	switch flags & posix.O_ACCMODE {
	case posix.O_WRONLY:
		bits = 0o200
	case posix.O_RDWR:
		bits = 0o600
	}
	again := -1
	err := LentFD(fd, bits, ready, func() (err error) { again, err = ReopenFD(fd, flags); return err })
	if err != nil && again >= 0 {
		_ = Close(again)
		again = -1
	}
	return again, err
}
