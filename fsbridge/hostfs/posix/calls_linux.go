//go:build !portable

package posix

import (
	"errors"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Open opens a path of the host, and follows symlinks.
func Open(path string, flags int, mode uint32) (int, error) {
	return unix.Open(path, flags|unix.O_CLOEXEC, mode)
}

// Openat opens name in the directory dirfd.
func Openat(dirfd int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, mode)
}

// Parent opens the directory that the directory fd is in, with O_PATH.
func Parent(fd int) (int, error) {
	return unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// OpenBeneath opens a path of several components below dirfd, none of which is followed if it is a symlink. "." is the directory.
func OpenBeneath(dirfd int, path string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(uint32(flags)) | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS,
	}
	if flags&unix.O_PATH != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	for range 128 {
		fd, err := unix.Openat2(dirfd, path, &how)
		// EAGAIN: a rename somewhere raced with the walk (openat2(2)).
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

// Reopen opens the inode behind fd once more with other flags, also one without a name.
func Reopen(fd, flags int) (int, error) { return unix.Open(procPath(fd), flags|unix.O_CLOEXEC, 0) }

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// PathOf returns a path by which the directory behind fd was reached last. It may lead nowhere by now.
func PathOf(fd int) (string, error) {
	buf := make([]byte, unix.PathMax+1)
	n, err := unix.Readlink(procPath(fd), buf)
	return string(buf[:max(n, 0)]), err
}

// Close closes a descriptor.
func Close(fd int) error { return unix.Close(fd) }

// Dup returns another number for the same open file, the lowest that is free.
func Dup(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// Setfl sets the flags of an open file that can be changed: O_APPEND, O_NONBLOCK.
func Setfl(fd, flags int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}

// Fstat describes what is open as fd, Fstatat what stands under a name.
func Fstat(fd int, st *Stat_t) error { return unix.Fstat(fd, st) }

// Fstatat describes what stands under a name.
func Fstatat(dirfd int, name string, st *Stat_t) error {
	return unix.Fstatat(dirfd, name, st, unix.AT_SYMLINK_NOFOLLOW)
}

// Fstatfs describes the file system of fd.
func Fstatfs(fd int, s *Statfs_t) error { return unix.Fstatfs(fd, s) }

// Attributes returns the owner and the STATX_ATTR bits of name in dirfd, or of what is open as dirfd if the name is empty.
func Attributes(dirfd int, name string) (uid uint32, attributes uint64, err error) {
	var x unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err = unix.Statx(dirfd, name, flags, unix.STATX_UID, &x)
	return x.Uid, x.Attributes, err
}

// Born returns when the inode behind fd was made, by the clock of its file system. False says that the file system does not tell.
func Born(fd int) (Timespec, bool) {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x)
	return Timespec{Sec: x.Btime.Sec, Nsec: int64(x.Btime.Nsec)}, err == nil && x.Mask&unix.STATX_BTIME != 0
}

// Faccessat asks for rights to name in dirfd: of the user that started the program, or of the one that it acts as.
func Faccessat(dirfd int, name string, mode uint32, effective bool) error {
	if effective {
		return unix.Faccessat(dirfd, name, mode, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
	}
	return unix.Faccessat(dirfd, name, mode, 0)
}

// Mkdirat makes a directory.
func Mkdirat(dirfd int, name string, mode uint32) error { return unix.Mkdirat(dirfd, name, mode) }

// Mknodat makes a FIFO, a socket or a regular file.
func Mknodat(dirfd int, name string, mode uint32) error { return unix.Mknodat(dirfd, name, mode, 0) }

// Symlinkat makes a symlink.
func Symlinkat(target string, dirfd int, name string) error {
	return unix.Symlinkat(target, dirfd, name)
}

// Readlinkat reads the symlink name, or the one that is open as dirfd if the name is empty.
func Readlinkat(dirfd int, name string, buf []byte) (int, error) {
	return unix.Readlinkat(dirfd, name, buf)
}

// Linkat gives an inode another name. A symlink is linked itself.
func Linkat(oldDir int, oldName string, newDir int, newName string) error {
	return unix.Linkat(oldDir, oldName, newDir, newName, 0)
}

// Flinkat gives the inode behind fd a name.
func Flinkat(fd, newDir int, newName string) error {
	return unix.Linkat(unix.AT_FDCWD, procPath(fd), newDir, newName, unix.AT_SYMLINK_FOLLOW)
}

// Renameat renames; flags are RENAME_NOREPLACE or RENAME_EXCHANGE.
func Renameat(oldDir int, oldName string, newDir int, newName string, flags uint) error {
	return unix.Renameat2(oldDir, oldName, newDir, newName, flags)
}

// Apart tells whether the kernel says that nothing can be renamed between two directories, by their mounts. It changes nothing.
func Apart(a, b int) bool {
	// The kernel compares the mounts before it refuses to rename a directory to itself.
	for {
		if err := unix.Renameat2(a, ".", b, ".", 0); err != unix.EINTR {
			return err == unix.EXDEV
		}
	}
}

// Rename renames by paths of the host.
func Rename(from, to string) error { return unix.Rename(from, to) }

// Unlinkat removes a name, of a directory or of what is none.
func Unlinkat(dirfd int, name string, directory bool) error {
	flags := 0
	if directory {
		flags = unix.AT_REMOVEDIR
	}
	return unix.Unlinkat(dirfd, name, flags)
}

// Chmod sets the twelve bits of the mode of what is open as fd, also with O_PATH. A symlink gives EOPNOTSUPP.
func Chmod(fd int, mode uint32) error {
	err := unix.Fchmod(fd, mode)
	if err != unix.EBADF {
		return err
	}
	if unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH) == nil { // fchmodat2, Linux 6.6
		return nil
	}
	var st Stat_t
	if Fstat(fd, &st) == nil && st.Mode&S_IFMT == S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod(procPath(fd), mode)
}

// Chown sets owner and group of what is open as fd, also with O_PATH; -1 leaves one.
func Chown(fd, uid, gid int) error { return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH) }

// Utimens sets the times of access and of modification of what is open as fd, also with O_PATH.
func Utimens(fd int, times *[2]Timespec) error {
	empty := [1]byte{}
	err := utimensat(fd, &empty[0], times, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL { // before Linux 5.8
		err = utimensat(fd, nil, times, 0)
	}
	return err
}

func utimensat(fd int, path *byte, ts *[2]Timespec, flags int) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(ts)), uintptr(flags), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// Pread, Preadv, Pwrite and Write read and write; Write at the position, or at the end with O_APPEND.
func Pread(fd int, buf []byte, off int64) (int, error) { return unix.Pread(fd, buf, off) }

// Preadv fills several pieces of memory.
func Preadv(fd int, bufs [][]byte, off int64) (int, error) { return unix.Preadv(fd, bufs, off) }

// Pwrite writes at a place.
func Pwrite(fd int, buf []byte, off int64) (int, error) { return unix.Pwrite(fd, buf, off) }

// Write writes at the position.
func Write(fd int, buf []byte) (int, error) { return unix.Write(fd, buf) }

// Seek sets or finds a position: SEEK_DATA and SEEK_HOLE give EINVAL where holes are not known.
func Seek(fd int, off int64, whence int) (int64, error) { return unix.Seek(fd, off, whence) }

// Ftruncate sets the size.
func Ftruncate(fd int, size int64) error { return unix.Ftruncate(fd, size) }

// Fallocate changes what a file takes of its file system.
func Fallocate(fd int, mode uint32, off, length int64) error {
	return unix.Fallocate(fd, mode, off, length)
}

// CopyRange copies within the kernel.
func CopyRange(dst int, dstOff int64, src int, srcOff int64, length int) (int, error) {
	return unix.CopyFileRange(src, &srcOff, dst, &dstOff, length, 0)
}

// Clone makes dst share the extents of src.
func Clone(dst, src int) error { return unix.IoctlFileClone(dst, src) }

// WriteBack has the changed pages of a file on their way to the disk.
func WriteBack(fd int) error {
	return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE)
}

// Fsync makes a file or a directory durable.
func Fsync(fd int) error { return unix.Fsync(fd) }

// Fdatasync makes the data of a file durable.
func Fdatasync(fd int) error { return unix.Fdatasync(fd) }

// Syncfs writes the file system of fd to the disk.
func Syncfs(fd int) error { return unix.Syncfs(fd) }

// Sync writes every file system to the disk.
func Sync() { unix.Sync() }

// Getdents reads entries of a directory at its position, as getdents64(2) lays them out.
func Getdents(fd int, buf []byte) (int, error) { return unix.Getdents(fd, buf) }

// Flock locks a whole file for this open file.
func Flock(fd, how int) error { return unix.Flock(fd, how) }

// SetLock sets a record lock of this open file (F_OFD_SETLK). Where another has it, EAGAIN or EACCES says so.
func SetLock(fd int, l Lock) error {
	k := l.flock()
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &k)
}

// GetLock returns a lock that is in the way of l, or one of type F_UNLCK.
func GetLock(fd int, l Lock) (Lock, error) {
	k := l.flock()
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &k); err != nil {
		return Lock{}, err
	}
	return Lock{Type: k.Type, Start: k.Start, Length: k.Len, PID: k.Pid}, nil
}

func (l Lock) flock() unix.Flock_t {
	return unix.Flock_t{Type: l.Type, Whence: unix.SEEK_SET, Start: l.Start, Len: l.Length}
}

// Written tells whether somebody can write to the file behind fd, which is open for reading, by a lease that is given back at once.
func Written(fd int) (written, known bool) {
	lease := func(kind int) error {
		for {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind); err != unix.EINTR {
				return err
			}
		}
	}
	if err := lease(unix.F_RDLCK); err != nil {
		return true, errors.Is(err, unix.EAGAIN)
	}
	_ = lease(unix.F_UNLCK)
	return false, true
}

// Temporary makes a file without a name, in memory. The name is for those who look at the process.
func Temporary(name string) (int, error) { return unix.MemfdCreate(name, unix.MFD_CLOEXEC) }

// Mmap maps a part of a file to read and write it, shared with it.
func Mmap(fd int, off int64, length int) ([]byte, error) {
	return unix.Mmap(fd, off, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Populate has the pages of a mapping there before they are written to.
func Populate(mem []byte) error {
	return unix.Madvise(mem, unix.MADV_POPULATE_WRITE) // Linux 5.14
}

// Munmap ends a mapping.
func Munmap(mem []byte) error { return unix.Munmap(mem) }

// Getpagesize returns the size of a page in bytes.
func Getpagesize() int { return unix.Getpagesize() }

// Umask sets the modes' bits that new files do not get, and returns those before.
func Umask(mask int) int { return unix.Umask(mask) }

// OpenFiles is how many descriptors the process may have. False says that nobody limits them.
func OpenFiles() (uint64, bool) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0, false
	}
	return r.Cur, true
}
