//go:build darwin || (linux && portable)

package posix

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Fstat describes what is open as fd.
func Fstat(fd int, st *Stat_t) error {
	if fd >= firstHeld {
		return holding.stat(fd, st)
	}
	return systemFstat(fd, st)
}

// Fstatat describes what stands under a name.
func Fstatat(dirfd int, name string, st *Stat_t) error {
	if dirfd < firstHeld { // no closure: this is asked all the time
		return systemFstatat(dirfd, name, st)
	}
	return holding.at(dirfd, func(dirfd int) error { return systemFstatat(dirfd, name, st) })
}

// Fstatfs describes the file system of fd.
func Fstatfs(fd int, s *Statfs_t) error {
	if fd >= firstHeld {
		return holding.by(fd, func(dirfd int, _ string, _ *Stat_t) error { return systemFstatfs(dirfd, s) })
	}
	return systemFstatfs(fd, s)
}

// Attributes returns the owner and the STATX_ATTR bits of name in dirfd, or of what is open as dirfd if the name is empty.
func Attributes(dirfd int, name string) (uid uint32, attributes uint64, err error) {
	if name == "" && dirfd >= firstHeld {
		err = holding.by(dirfd, func(dirfd int, name string, _ *Stat_t) error {
			uid, attributes, err = systemAttributes(dirfd, name)
			return err
		})
		return uid, attributes, err
	}
	err = holding.at(dirfd, func(dirfd int) error {
		uid, attributes, err = systemAttributes(dirfd, name)
		return err
	})
	return uid, attributes, err
}

// Born returns false: macOS lets whoever sets the times set this one, too.
func Born(int) (Timespec, bool) { return Timespec{}, false }

// Faccessat asks for rights to name in dirfd: of the user that started the program, or of the one that it acts as.
func Faccessat(dirfd int, name string, mode uint32, effective bool) error {
	return holding.at(dirfd, func(dirfd int) error { return systemFaccessat(dirfd, name, mode, effective) })
}

// Mkdirat makes a directory.
func Mkdirat(dirfd int, name string, mode uint32) error {
	return holding.at(dirfd, func(dirfd int) error { return from(unix.Mkdirat(dirfd, name, mode)) })
}

// Mknodat makes a FIFO, a socket or a regular file. The first two are made by the path of the directory, as there is no other call: if
// nothing of that kind is then in dirfd, somebody has moved that meanwhile, and ESTALE says so.
func Mknodat(dirfd int, name string, mode uint32) error {
	return holding.at(dirfd, func(dirfd int) error {
		switch mode & S_IFMT {
		case S_IFREG, 0:
			fd, err := systemOpenat(dirfd, name, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW, mode&0o7777)
			if err == nil {
				err = from(unix.Close(fd))
			}
			return err
		case S_IFIFO, S_IFSOCK:
			return makeByPath(dirfd, name, mode)
		}
		return EPERM
	})
}

func makeByPath(dirfd int, name string, mode uint32) error {
	var st Stat_t
	if systemFstatat(dirfd, name, &st) == nil {
		return EEXIST
	}
	path, err := systemPath(dirfd)
	if err != nil {
		return err
	}
	path = filepath.Join(path, name)
	if mode&S_IFMT == S_IFIFO {
		err = from(unix.Mkfifo(path, mode&0o7777))
	} else {
		err = makeSocket(path)
	}
	if err != nil {
		return err
	}
	if err := systemFstatat(dirfd, name, &st); err != nil || st.Mode&S_IFMT != mode&S_IFMT {
		return ESTALE
	}
	if (st.Mode^mode)&0o7777 == 0 {
		return nil
	}
	return systemChmod(dirfd, name, mode&0o7777)
}

// makeSocket makes a socket to which nobody listens, as one has that was closed. EPERM if the path is longer than a socket's can be.
func makeSocket(path string) error {
	const longest = 103 // on macOS
	if len(path) > longest {
		return EPERM
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return from(err)
	}
	defer unix.Close(fd)
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == unix.EADDRINUSE {
		return EEXIST
	}
	return from(err)
}

// Symlinkat makes a symlink.
func Symlinkat(target string, dirfd int, name string) error {
	return holding.at(dirfd, func(dirfd int) error { return from(unix.Symlinkat(target, dirfd, name)) })
}

// Readlinkat reads the symlink name, or the one that is held as dirfd if the name is empty.
func Readlinkat(dirfd int, name string, buf []byte) (n int, err error) {
	read := func(dirfd int, name string) error {
		n, err = unix.Readlinkat(dirfd, name, buf)
		return from(err)
	}
	if name == "" {
		if dirfd < firstHeld {
			return 0, EINVAL
		}
		err = holding.by(dirfd, func(dirfd int, name string, _ *Stat_t) error { return read(dirfd, name) })
		return n, err
	}
	err = holding.at(dirfd, func(dirfd int) error { return read(dirfd, name) })
	return n, err
}

// both is [table.at] for two directories.
func both(a, b int, f func(a, b int) error) error {
	return holding.at(a, func(a int) error {
		return holding.at(b, func(b int) error { return f(a, b) })
	})
}

// Linkat gives an inode another name. A symlink is linked itself.
func Linkat(oldDir int, oldName string, newDir int, newName string) error {
	return both(oldDir, newDir, func(a, b int) error {
		if err := unix.Linkat(a, oldName, b, newName, 0); err != nil {
			return from(err)
		}
		var st Stat_t
		if holding.count.Load() > 0 && systemFstatat(b, newName, &st) == nil {
			holding.linked(place{b, newName}, &st)
		}
		return nil
	})
}

// Flinkat gives the inode behind fd a name. It goes by a name that the inode has, and takes the new one back if it is another
// file's: ESTALE. ENOENT if the inode has no name.
func Flinkat(fd, newDir int, newName string) error {
	if fd >= firstHeld {
		return holding.at(newDir, func(newDir int) error {
			var linked Stat_t
			err := holding.by(fd, func(dirfd int, name string, st *Stat_t) error {
				linked = *st
				return linkVerified(dirfd, name, newDir, newName, st)
			})
			if err == nil {
				holding.linked(place{newDir, newName}, &linked)
			}
			return err
		})
	}
	var st Stat_t
	if err := systemFstat(fd, &st); err != nil {
		return err
	}
	path, err := systemPath(fd)
	if err != nil || st.Nlink == 0 {
		return ENOENT
	}
	var now Stat_t
	if systemFstatat(unix.AT_FDCWD, path, &now) != nil || inodeOf(&now) != inodeOf(&st) {
		return ENOENT
	}
	return holding.at(newDir, func(newDir int) error { return linkVerified(unix.AT_FDCWD, path, newDir, newName, &st) })
}

func linkVerified(oldDir int, oldName string, newDir int, newName string, st *Stat_t) error {
	if err := unix.Linkat(oldDir, oldName, newDir, newName, 0); err != nil {
		return from(err)
	}
	var now Stat_t
	err := systemFstatat(newDir, newName, &now)
	if err == nil && inodeOf(&now) != inodeOf(st) {
		_ = unix.Unlinkat(newDir, newName, 0)
		err = ESTALE
	}
	return err
}

// Renameat renames; flags are RENAME_NOREPLACE or RENAME_EXCHANGE.
func Renameat(oldDir int, oldName string, newDir int, newName string, flags uint) error {
	return both(oldDir, newDir, func(a, b int) error {
		return holding.renaming(place{a, oldName}, place{b, newName}, flags&RENAME_EXCHANGE != 0, func() error {
			return systemRename(a, oldName, b, newName, flags)
		})
	})
}

// Apart returns false: no call says it without a change.
func Apart(int, int) bool { return false }

// Rename renames by paths of the host.
func Rename(from_, to string) error { return from(unix.Rename(from_, to)) }

// Unlinkat removes a name, of a directory or of what is none.
func Unlinkat(dirfd int, name string, directory bool) error {
	return holding.at(dirfd, func(dirfd int) error {
		return holding.renaming(place{dirfd, name}, place{}, false, func() error {
			return systemUnlink(dirfd, name, directory)
		})
	})
}
