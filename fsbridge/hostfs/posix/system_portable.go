//go:build linux && portable

package posix

import (
	"encoding/binary"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has Linux do what system_darwin.go has macOS do, so that the rest can be tested here. Where macOS has a call that
// Linux lacks, it takes the one of Linux that comes nearest, and says which.

const (
	systemNoLinks = 0 // O_NOFOLLOW_ANY
	systemSetLock = unix.F_OFD_SETLK
	systemGetLock = unix.F_OFD_GETLK
)

func from(err error) error { return err }

func systemFlags(flags int) int { return flags }

func systemOpenat(dirfd int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, mode)
}

// systemSearch stands for O_SEARCH: a directory that we may enter, but not read.
func systemSearch(dirfd int, name string) (int, error) {
	if err := unix.Faccessat(dirfd, name, unix.X_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return unix.Openat(dirfd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// systemPath stands for F_GETPATH.
func systemPath(fd int) (string, error) {
	buf := make([]byte, unix.PathMax+1)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	return string(buf[:max(n, 0)]), err
}

func systemFstat(fd int, st *Stat_t) error { return unix.Fstat(fd, st) }

func systemFstatat(dirfd int, name string, st *Stat_t) error {
	return unix.Fstatat(dirfd, name, st, unix.AT_SYMLINK_NOFOLLOW)
}

func systemFstatfs(fd int, s *Statfs_t) error { return unix.Fstatfs(fd, s) }

// systemAttributes stands for st_flags.
func systemAttributes(dirfd int, name string) (uid uint32, attributes uint64, err error) {
	var x unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err = unix.Statx(dirfd, name, flags, unix.STATX_UID, &x)
	return x.Uid, x.Attributes, err
}

func systemFaccessat(dirfd int, name string, mode uint32, effective bool) error {
	if effective {
		return unix.Faccessat(dirfd, name, mode, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
	}
	return unix.Faccessat(dirfd, name, mode, 0)
}

// systemRename stands for renameatx_np.
func systemRename(oldDir int, oldName string, newDir int, newName string, flags uint) error {
	return unix.Renameat2(oldDir, oldName, newDir, newName, flags)
}

func systemUnlink(dirfd int, name string, directory bool) error {
	flags := 0
	if directory {
		flags = unix.AT_REMOVEDIR
	}
	return unix.Unlinkat(dirfd, name, flags)
}

// systemChmod is for what is no symlink. fchmodat2, which follows none, is there since Linux 6.6.
func systemChmod(dirfd int, name string, mode uint32) error {
	err := unix.Fchmodat(dirfd, name, mode, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		err = unix.Fchmodat(dirfd, name, mode, 0)
	}
	return err
}

// systemUtimens is futimens.
func systemUtimens(fd int, times *[2]Timespec) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func systemUtimensat(dirfd int, name string, times *[2]Timespec) error {
	return unix.UtimesNanoAt(dirfd, name, times[:], unix.AT_SYMLINK_NOFOLLOW)
}

// namePath stands for a descriptor by O_SYMLINK.
func namePath(dirfd int, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(dirfd) + "/" + name
}

func systemGetxattr(dirfd int, name, attr string, buf []byte) (int, error) {
	return unix.Lgetxattr(namePath(dirfd, name), attr, buf)
}

func systemListxattr(dirfd int, name string, buf []byte) (int, error) {
	return unix.Llistxattr(namePath(dirfd, name), buf)
}

func systemSetxattr(dirfd int, name, attr string, value []byte, flags int) error {
	return unix.Lsetxattr(namePath(dirfd, name), attr, value, flags)
}

func systemRemovexattr(dirfd int, name, attr string) error {
	return unix.Lremovexattr(namePath(dirfd, name), attr)
}

func systemFgetxattr(fd int, attr string, buf []byte) (int, error) {
	return unix.Fgetxattr(fd, attr, buf)
}

func systemFsetxattr(fd int, attr string, value []byte, flags int) error {
	return unix.Fsetxattr(fd, attr, value, flags)
}

// systemFlagsOf stands for st_flags.
func systemFlagsOf(fd int) (uint32, error) { return unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS) }

// systemSetFlags stands for fchflags.
func systemSetFlags(fd int, flags uint32) error {
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags))
}

// systemPreallocate stands for F_PREALLOCATE.
func systemPreallocate(fd int, off, length int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, length)
}

// systemPunch stands for F_PUNCHHOLE.
func systemPunch(fd int, off, length int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, length)
}

// systemFlush stands for F_FULLFSYNC.
func systemFlush(fd int) error { return unix.Fsync(fd) }

// systemSync stands for sync and F_FULLFSYNC: that would write what all others on this machine have changed.
func systemSync(fd int) error { return unix.Syncfs(fd) }

// Sync writes every file system to the disk.
func Sync() { unix.Sync() }

// systemReadDir stands for readdir.
func systemReadDir(fd int) (all []entry, err error) {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return all, err
		}
		for b := buf[:n]; len(b) > 0; b = b[binary.NativeEndian.Uint16(b[16:]):] {
			all = append(all, entry{ino: binary.NativeEndian.Uint64(b), typ: b[18], name: unix.ByteSliceToString(b[19:])})
		}
	}
}

// HandleID is empty: there are no handles.
func HandleID(int) string { return "" }
