//go:build darwin || (linux && portable)

package posix

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Open opens a path of the host, and follows symlinks. With O_PATH it is a directory.
func Open(path string, flags int, mode uint32) (int, error) {
	if flags&O_PATH == 0 {
		return systemOpenat(unix.AT_FDCWD, path, flags, mode)
	}
	fd, err := systemOpenat(unix.AT_FDCWD, path, O_RDONLY|O_DIRECTORY, 0)
	if err != EACCES {
		return fd, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return -1, from(err)
	}
	dir, err := Open(filepath.Dir(path), O_PATH|O_DIRECTORY, 0)
	if err != nil || filepath.Dir(path) == path {
		return dir, err
	}
	defer func() { _ = Close(dir) }()
	return Openat(dir, filepath.Base(path), O_PATH|O_DIRECTORY, 0)
}

// Openat opens name in the directory dirfd. No file without a name can be made.
func Openat(dirfd int, name string, flags int, mode uint32) (fd int, err error) {
	if flags&O_TMPFILE == O_TMPFILE {
		return -1, EOPNOTSUPP
	}
	err = holding.at(dirfd, func(dirfd int) error {
		if flags&O_PATH != 0 {
			fd, err = openPath(dirfd, name, flags&O_DIRECTORY != 0)
		} else {
			fd, err = systemOpenat(dirfd, name, flags, mode)
		}
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// openPath opens name as O_PATH does: what can be opened for reading without more coming of it is opened so, the rest is held.
func openPath(dirfd int, name string, directory bool) (int, error) {
	for range 128 {
		var st Stat_t
		if err := systemFstatat(dirfd, name, &st); err != nil {
			return -1, err
		}
		flags := O_RDONLY | O_NOFOLLOW
		switch typ := st.Mode & S_IFMT; {
		case typ == S_IFDIR:
			flags |= O_DIRECTORY
		case directory:
			return -1, ENOTDIR
		case typ == S_IFREG:
			flags |= O_NONBLOCK
		default:
			return holding.hold(dirfd, name, &st, -1)
		}
		fd, err := systemOpenat(dirfd, name, flags, 0)
		search := -1
		switch {
		case err == nil:
			var now Stat_t
			if err = systemFstat(fd, &now); err == nil && now.Mode&S_IFMT == st.Mode&S_IFMT {
				return fd, nil
			}
			_ = unix.Close(fd)
			continue // exchanged since the look
		case err == ELOOP, err == ENOTDIR, err == ENXIO: // as well
			continue
		case err != EACCES && err != EPERM && err != EAGAIN:
			return -1, err
		case flags&O_DIRECTORY != 0:
			if search, err = systemSearch(dirfd, name); err != nil {
				search = -1
			}
		}
		return holding.hold(dirfd, name, &st, search)
	}
	return -1, EAGAIN
}

// Parent opens the directory that the directory fd is in, with O_PATH.
func Parent(fd int) (int, error) { return Openat(fd, "..", O_PATH|O_DIRECTORY, 0) }

// OpenBeneath opens a path of several components below dirfd, none of which is followed if it is a symlink. "." is the directory.
// It walks: whoever moves a directory of the path meanwhile has it end in what was moved, and it never ends beside that.
func OpenBeneath(dirfd int, path string, flags int) (fd int, err error) {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	cur := dirfd
	for i, name := range parts {
		last := i == len(parts)-1
		switch {
		case name == "..":
			fd, err = -1, EXDEV
		case last:
			fd, err = Openat(cur, name, flags|O_NOFOLLOW, 0)
		default:
			fd, err = onTheWay(cur, name)
		}
		if err == ENOTDIR && (!last || flags&O_PATH == 0) {
			err = notDirectory(cur, name)
		}
		if cur != dirfd {
			_ = Close(cur)
		}
		if err != nil {
			return -1, err
		}
		cur = fd
	}
	if len(parts) == 0 {
		return -1, ENOENT
	}
	return fd, nil
}

// onTheWay opens a directory to enter it.
func onTheWay(dirfd int, name string) (int, error) {
	fd, err := Openat(dirfd, name, O_RDONLY|O_DIRECTORY|O_NOFOLLOW, 0)
	if err == EACCES {
		return Openat(dirfd, name, O_PATH|O_DIRECTORY, 0)
	}
	return fd, err
}

// notDirectory is the error of a walk through name, which is no directory.
func notDirectory(dirfd int, name string) error {
	var st Stat_t
	if Fstatat(dirfd, name, &st) == nil && st.Mode&S_IFMT == S_IFLNK {
		return ELOOP
	}
	return ENOTDIR
}

// Reopen opens the inode behind fd once more with other flags. No system but Linux can do that by the descriptor, so it goes by a path, and
// compares what it has opened: a directory is found in itself, a file by the path that the system knows. A file that has no
// name any more, or whose path somebody else has changed, gives another number for the same open file, if that one has the access: its
// position and its locks are shared then. Else ESTALE.
func Reopen(fd, flags int) (n int, err error) {
	if fd >= firstHeld {
		if flags&O_PATH != 0 {
			return holding.again(fd)
		}
		err = holding.by(fd, func(dirfd int, name string, st *Stat_t) error {
			n, err = verified(dirfd, name, flags, st)
			return err
		})
		if err != nil && n > 0 {
			_ = unix.Close(n)
		}
		return n, err
	}
	var st Stat_t
	if err = systemFstat(fd, &st); err != nil {
		return -1, err
	}
	if st.Mode&S_IFMT == S_IFDIR {
		return Openat(fd, ".", flags|O_DIRECTORY, 0)
	}
	if flags&O_PATH != 0 {
		return Dup(fd)
	}
	path, err := systemPath(fd)
	if err == nil {
		n, err = verified(unix.AT_FDCWD, path, flags|systemNoLinks, &st)
	}
	if err == nil || err == EACCES || err == EPERM || err == EROFS || err == ETXTBSY || err == ENXIO {
		return n, err
	}
	return shared(fd, flags)
}

// verified opens the file st by a path, else the error is ESTALE.
func verified(dirfd int, path string, flags int, st *Stat_t) (int, error) {
	first := flags | O_NOFOLLOW
	if st.Mode&S_IFMT == S_IFREG {
		first |= O_NONBLOCK // something else may be there
	}
	fd, err := systemOpenat(dirfd, path, first, 0)
	if err != nil {
		return -1, err
	}
	var now Stat_t
	if err = systemFstat(fd, &now); err == nil && inodeOf(&now) != inodeOf(st) {
		err = ESTALE
	}
	if err == nil && first&^flags&O_NONBLOCK != 0 {
		err = Setfl(fd, flags)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// shared is another number for the open file fd, if that has the access of flags.
func shared(fd, flags int) (int, error) {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, from(err)
	}
	if a := have & unix.O_ACCMODE; a != unix.O_RDWR && a != flags&O_ACCMODE {
		return -1, ESTALE
	}
	return Dup(fd)
}

// PathOf returns a path by which the directory behind fd was reached last. It may lead nowhere by now.
func PathOf(fd int) (path string, err error) {
	if fd < firstHeld {
		return systemPath(fd)
	}
	err = holding.by(fd, func(dirfd int, name string, _ *Stat_t) error {
		path, err = systemPath(dirfd)
		path = filepath.Join(path, name)
		return err
	})
	return path, err
}

// Close closes a descriptor.
func Close(fd int) error {
	if fd >= firstHeld {
		return holding.drop(fd)
	}
	listings.forget(fd)
	temporaries.remove(fd)
	return from(unix.Close(fd))
}

// Dup returns another number for the same open file, the lowest that is free.
func Dup(fd int) (int, error) {
	if fd >= firstHeld {
		return holding.again(fd)
	}
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return n, from(err)
}

// Setfl sets the flags of an open file that can be changed: O_APPEND, O_NONBLOCK.
func Setfl(fd, flags int) error {
	if fd >= firstHeld {
		return EBADF
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, systemFlags(flags&(O_APPEND|O_NONBLOCK)))
	return from(err)
}

// named are the files of [Temporary], with their directories.
type named struct {
	mu sync.Mutex
	of map[int]string
}

var temporaries = named{of: make(map[int]string)}

// Temporary makes a file that is gone when it is closed. It has a name so long, in a directory of its own that only this user may enter, because
// [Reopen] needs one: after a kill it stays there.
func Temporary(name string) (int, error) {
	dir, err := os.MkdirTemp("", "sandbox-"+name+"-")
	if err != nil {
		return -1, from(err)
	}
	fd, err := systemOpenat(unix.AT_FDCWD, filepath.Join(dir, name), O_RDWR|O_CREAT|O_EXCL, 0o600)
	if err != nil {
		_ = os.RemoveAll(dir)
		return -1, err
	}
	temporaries.mu.Lock()
	defer temporaries.mu.Unlock()
	temporaries.of[fd] = dir
	return fd, nil
}

func (t *named) remove(fd int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir := t.of[fd]; dir != "" {
		delete(t.of, fd)
		_ = os.RemoveAll(dir)
	}
}
