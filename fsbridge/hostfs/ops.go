package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// ClearUmask sets the process's umask to zero, so that modes given to this
// package are the modes that files get. Call it once at program start, before
// any other goroutine creates files. It returns the umask that was, for the
// programs that are started.
func ClearUmask() int { return posix.Umask(0) }

// SetUmask puts back what [ClearUmask] returned: for programs that are started, once
// this one makes no files itself any more.
func SetUmask(mask int) { posix.Umask(mask) }

func pathErr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

func linkErr(op, oldName, newName string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: oldName, New: newName, Err: err}
}

// retry runs f until it fails with something other than EINTR.
func retry(f func() error) error {
	for {
		err := f()
		if !errors.Is(err, posix.EINTR) {
			return err
		}
	}
}

// OpenKnown is [OpenVerified] that keeps the stat: the name is the file id, else the error
// is ESTALE.
func OpenKnown(dirfd int, name string, id ID, flags int) (int, Stat, error) {
	fd, err := OpenAt(dirfd, name, flags, 0)
	if err != nil {
		return -1, Stat{}, err
	}
	fd, st, err := Described(fd)
	if err == nil && st.ID != id {
		_ = Close(fd)
		return -1, st, posix.ESTALE
	}
	return fd, st, err
}

// Described returns fd with its stat; if there is none, fd is closed.
func Described(fd int) (int, Stat, error) {
	st, err := StatFD(fd)
	if err != nil {
		_ = Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// OpenAt opens name below dirfd with O_NOFOLLOW and O_CLOEXEC added to flags.
// A final symlink gives ELOOP unless flags holds O_PATH. The caller closes the
// descriptor.
func OpenAt(dirfd int, name string, flags int, mode uint32) (int, error) {
	if err := CheckName(name); err != nil {
		return -1, pathErr("open", name, err)
	}
	fd := -1
	err := retry(func() (err error) {
		fd, err = posix.Openat(dirfd, name, flags|posix.O_NOFOLLOW|posix.O_LARGEFILE, mode)
		return err
	})
	if meetsLease(err, flags) {
		return openLeased(dirfd, name, flags)
	}
	if err != nil {
		return -1, pathErr("open", name, err)
	}
	return fd, nil
}

// OpenVerified opens name below dirfd as [OpenAt] does and checks that it is
// the inode id; otherwise it returns an error wrapping [ErrChanged] and ESTALE.
func OpenVerified(dirfd int, name string, id ID, flags int) (int, error) {
	fd, _, err := OpenKnown(dirfd, name, id, flags)
	if err == posix.ESTALE {
		err = pathErr("open", name, errors.Join(ErrChanged, err))
	}
	return fd, err
}

// OpenDirAt opens the directory name below dirfd for use as a dirfd and for
// [ReadDir]. It never follows a symlink (ENOTDIR).
func OpenDirAt(dirfd int, name string) (int, error) {
	return OpenAt(dirfd, name, posix.O_RDONLY|posix.O_DIRECTORY, 0)
}

// OpenDirPathAt opens the directory name below dirfd with O_PATH: no read
// permission is needed, and the descriptor serves only as a dirfd.
func OpenDirPathAt(dirfd int, name string) (int, error) {
	return OpenAt(dirfd, name, posix.O_PATH|posix.O_DIRECTORY, 0)
}

// OpenTmpfile makes a file without a name in the directory behind dirfd
// (O_TMPFILE). flags holds the access mode, and O_EXCL if it may never be
// linked. EOPNOTSUPP where the file system cannot.
func OpenTmpfile(dirfd, flags int, mode uint32) (int, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = posix.Openat(dirfd, ".", flags|posix.O_TMPFILE|posix.O_LARGEFILE, mode)
		return err
	})
	if err != nil {
		return -1, pathErr("open temporary file", "", err)
	}
	return fd, nil
}

// OpenSelf opens the directory behind dirfd once more, with its own position.
func OpenSelf(dirfd, flags int) (int, error) {
	fd, err := openBeneath(dirfd, ".", flags|posix.O_DIRECTORY)
	if err != nil {
		return -1, pathErr("open", ".", err)
	}
	return fd, nil
}

// SyncFS writes to the disk what is in the file system of the directory behind dirfd, which may be
// O_PATH. Where we may not read the directory, it does so with every file system.
func SyncFS(dirfd int) error {
	fd, err := OpenSelf(dirfd, posix.O_RDONLY)
	if errors.Is(err, posix.EACCES) {
		posix.Sync()
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(posix.Syncfs(fd), Close(fd))
}

// ReopenFD opens the inode behind fd once more with other flags. It works for
// an unlinked file.
func ReopenFD(fd, flags int) (int, error) {
	n := -1
	err := retry(func() (err error) {
		n, err = posix.Reopen(fd, flags)
		return err
	})
	if meetsLease(err, flags) {
		return reopenLeased(fd, flags)
	}
	if err != nil {
		return -1, pathErr("reopen", described(fd), err)
	}
	return n, nil
}

// NameOf returns the name by which the directory behind fd is reached now. Where it was removed, or is the root, the name leads nowhere: look whether
// it leads to the directory.
func NameOf(fd int) (string, error) {
	at, err := posix.PathOf(fd)
	return filepath.Base(at), pathErr("name", described(fd), err)
}

// described names a descriptor in errors.
func described(fd int) string { return "descriptor " + strconv.Itoa(fd) }

// Close closes a descriptor. EINTR counts as closed, as on Linux it is.
func Close(fd int) error {
	err := posix.Close(fd)
	if errors.Is(err, posix.EINTR) {
		return nil
	}
	return pathErr("close", "", err)
}

func fromUnix(u *posix.Stat_t) Stat {
	return Stat{
		ID:   ID{Dev: u.Dev, Ino: u.Ino},
		Mode: u.Mode, Nlink: uint64(u.Nlink), UID: u.Uid, GID: u.Gid, Rdev: u.Rdev,
		Size: u.Size, Blocks: u.Blocks, Blksize: int64(u.Blksize),
		Atime: Nanoseconds(u.Atim.Unix()), Mtime: Nanoseconds(u.Mtim.Unix()), Ctime: Nanoseconds(u.Ctim.Unix()),
	}
}

// StatAt describes name below dirfd, without following a symlink.
func StatAt(dirfd int, name string) (Stat, error) {
	if err := CheckName(name); err != nil {
		return Stat{}, pathErr("stat", name, err)
	}
	var u posix.Stat_t
	err := retry(func() error { return posix.Fstatat(dirfd, name, &u) })
	if err != nil {
		return Stat{}, pathErr("stat", name, err)
	}
	return fromUnix(&u), nil
}

// StatFD describes the inode behind fd, which may be an O_PATH descriptor.
func StatFD(fd int) (Stat, error) {
	var u posix.Stat_t
	if err := retry(func() error { return posix.Fstat(fd, &u) }); err != nil {
		return Stat{}, pathErr("fstat", "", err)
	}
	return fromUnix(&u), nil
}

// MkdirAt creates a directory.
func MkdirAt(dirfd int, name string, mode uint32) error {
	return named("mkdir", name, func() error { return posix.Mkdirat(dirfd, name, mode) })
}

// MknodAt creates a FIFO, a socket or an empty regular file: mode holds the
// S_IFMT bits. Device nodes are refused with EPERM.
func MknodAt(dirfd int, name string, mode uint32) error {
	switch mode & posix.S_IFMT {
	case posix.S_IFCHR, posix.S_IFBLK:
		return pathErr("mknod", name, posix.EPERM)
	}
	return named("mknod", name, func() error { return posix.Mknodat(dirfd, name, mode) })
}

// WriteNewAt creates a regular file with a content.
func WriteNewAt(dirfd int, name, content string, mode uint32) error {
	fd, err := OpenAt(dirfd, name, posix.O_WRONLY|posix.O_CREAT|posix.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = Pwritev(fd, [][]byte{[]byte(content)}, 0)
	return errors.Join(err, Close(fd))
}

// SymlinkAt creates the symlink name with the given target text.
func SymlinkAt(target string, dirfd int, name string) error {
	return named("symlink", name, func() error { return posix.Symlinkat(target, dirfd, name) })
}

// ReadlinkAt returns the target text of the symlink name.
func ReadlinkAt(dirfd int, name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", pathErr("readlink", name, err)
	}
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n := 0
		err := retry(func() (err error) { n, err = posix.Readlinkat(dirfd, name, buf); return err })
		if err != nil {
			return "", pathErr("readlink", name, err)
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// LinkAt makes newName below newDir another name of the inode oldName below
// oldDir; a symlink is linked itself.
func LinkAt(oldDir int, oldName string, newDir int, newName string) error {
	if err := errors.Join(CheckName(oldName), CheckName(newName)); err != nil {
		return linkErr("link", oldName, newName, err)
	}
	return linkErr("link", oldName, newName, retry(func() error {
		return posix.Linkat(oldDir, oldName, newDir, newName)
	}))
}

// LinkFD makes newName below newDir a name of the inode behind fd, which was
// opened with O_TMPFILE or is otherwise still linkable.
func LinkFD(fd, newDir int, newName string) error {
	if err := CheckName(newName); err != nil {
		return linkErr("link", "", newName, err)
	}
	return linkErr("link", described(fd), newName, retry(func() error {
		return posix.Flinkat(fd, newDir, newName)
	}))
}

// RenameAt renames with the flags of renameat2 (RENAME_NOREPLACE,
// RENAME_EXCHANGE).
func RenameAt(oldDir int, oldName string, newDir int, newName string, flags uint32) error {
	if err := errors.Join(CheckName(oldName), CheckName(newName)); err != nil {
		return linkErr("rename", oldName, newName, err)
	}
	return linkErr("rename", oldName, newName, retry(func() error {
		return posix.Renameat(oldDir, oldName, newDir, newName, uint(flags))
	}))
}

// UnlinkAt removes a name that is not a directory.
func UnlinkAt(dirfd int, name string) error {
	return named("unlink", name, func() error { return posix.Unlinkat(dirfd, name, false) })
}

// RmdirAt removes an empty directory.
func RmdirAt(dirfd int, name string) error {
	return named("rmdir", name, func() error { return posix.Unlinkat(dirfd, name, true) })
}

func named(op, name string, f func() error) error {
	if err := CheckName(name); err != nil {
		return pathErr(op, name, err)
	}
	return pathErr(op, name, retry(f))
}

// withPath runs f on a descriptor of name's inode, which is opened
// with O_PATH, so that a symlink is never followed.
func withPath(op string, dirfd int, name string, f func(fd int) error) error {
	fd, err := OpenAt(dirfd, name, posix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer func() { _ = Close(fd) }()
	return pathErr(op, name, retry(func() error { return f(fd) }))
}

// ChmodAt sets the twelve permission bits of name. A symlink gives EOPNOTSUPP.
func ChmodAt(dirfd int, name string, mode uint32) error {
	return withPath("chmod", dirfd, name, func(fd int) error { return posix.Chmod(fd, mode&0o7777) })
}

// ChmodFD sets the twelve permission bits of the inode behind fd, which may be
// an O_PATH descriptor.
func ChmodFD(fd int, mode uint32) error {
	return pathErr("chmod", "", retry(func() error { return posix.Chmod(fd, mode&0o7777) }))
}

// KillPriv clears setuid, and setgid where it means execution, as the kernel does after
// a write to a regular file by somebody without CAP_FSETID.
func KillPriv(fd int) error {
	st, err := StatFD(fd)
	if err != nil {
		return err
	}
	clear := st.Mode & posix.S_ISUID
	if st.Mode&posix.S_IXGRP != 0 {
		clear |= st.Mode & posix.S_ISGID
	}
	if clear == 0 || !st.IsRegular() {
		return nil
	}
	return ChmodFD(fd, st.Mode&^clear)
}

// ChownFD sets owner and group of the inode behind fd, which may be O_PATH; -1
// leaves one as it is.
func ChownFD(fd, uid, gid int) error {
	return pathErr("chown", "", retry(func() error {
		return posix.Chown(fd, uid, gid)
	}))
}

func timespec(ns int64) posix.Timespec {
	switch ns {
	case TimeOmit:
		return posix.Timespec{Nsec: posix.UTIME_OMIT}
	case TimeNow:
		return posix.Timespec{Nsec: posix.UTIME_NOW}
	}
	sec, nsec := Seconds(ns)
	return posix.Timespec{Sec: sec, Nsec: nsec}
}

// UtimesFD sets access and modification time of the inode behind fd, which may
// be O_PATH, in nanoseconds since the epoch, or [TimeOmit] or [TimeNow].
func UtimesFD(fd int, atime, mtime int64) error {
	ts := [2]posix.Timespec{timespec(atime), timespec(mtime)}
	return pathErr("utimes", "", retry(func() error { return posix.Utimens(fd, &ts) }))
}

// Statfs describes the file system that holds fd.
func Statfs(fd int) (posix.Statfs_t, error) {
	var s posix.Statfs_t
	err := retry(func() error { return posix.Fstatfs(fd, &s) })
	return s, pathErr("statfs", "", err)
}
