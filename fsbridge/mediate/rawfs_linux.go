package mediate

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// rawName is a buffer that holds a name and a NUL.
type rawName []byte

// Names that are used all day.
var (
	rawEmpty  = rawName("\x00")
	rawCwd    = rawName("cwd\x00")
	rawDotDot = rawName("..\x00")
)

// rawTerminated returns name with a NUL, in buf if that has room.
func rawTerminated(buf []byte, name []byte) rawName { return append(append(buf[:0], name...), 0) }

// rawNumbered returns prefix, the number and a NUL in buf.
func rawNumbered(buf []byte, prefix string, n uint64) rawName {
	return append(strconv.AppendUint(append(buf[:0], prefix...), n, 10), 0)
}

// rawOpenAt is openat(2) with O_CLOEXEC.
func rawOpenAt(dir int, name rawName, flags int) (int, syscall.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
			uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		return int(fd), errno
	}
}

// rawOpenDirAt opens a directory, O_PATH, with RESOLVE_* flags.
func rawOpenDirAt(dir int, path rawName, resolve uint64) (int, syscall.Errno) {
	return rawOpenPathAt(dir, path, unix.O_DIRECTORY, resolve)
}

// rawOpenPathAt is openat2(2) with O_PATH, O_CLOEXEC, the given flags and RESOLVE_* flags. The
// kernel answers EAGAIN where a path has ".." and something was renamed anywhere in the
// meantime: then it is asked again, a bounded number of times.
func rawOpenPathAt(dir int, path rawName, flags int, resolve uint64) (fd int, errno syscall.Errno) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	for range 1024 {
		var r uintptr
		r, _, errno = unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(path))),
			uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		if errno != syscall.EAGAIN && errno != syscall.EINTR {
			return int(r), errno
		}
	}
	return -1, errno
}

// rawClose closes fd unless it is negative.
func rawClose(fd int) {
	if fd >= 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}

// rawInfo is what we want to know of a file in the caller's view.
type rawInfo struct {
	ID    hostfs.ID
	Mount uint64
	Mode  uint32
	Nlink uint32
	Size  uint64
}

// Type is the file's type, of its mode.
func (i *rawInfo) Type() uint32 { return i.Mode & syscall.S_IFMT }

// rawLook describes name in dir, which is not followed; the empty name is dir itself.
func rawLook(dir int, name rawName, out *rawInfo) syscall.Errno {
	return rawDescribe(dir, name, unix.AT_SYMLINK_NOFOLLOW, out)
}

// rawDescribe is Look with flags of its own.
func rawDescribe(dir int, name rawName, flags int, out *rawInfo) syscall.Errno {
	var st unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_INO | unix.STATX_NLINK | unix.STATX_SIZE | unix.STATX_MNT_ID
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
		uintptr(flags|unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT), want, uintptr(unsafe.Pointer(&st)), 0)
	if errno != 0 {
		return errno
	}
	*out = rawInfo{
		ID:    hostfs.ID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino},
		Mount: st.Mnt_id, Mode: uint32(st.Mode), Nlink: st.Nlink, Size: st.Size,
	}
	return 0
}

// rawLookBelow describes the directory to which path leads from dir, below it and on its mount, which is given, without symlinks.
func rawLookBelow(dir int, path rawName, mount uint64, out *rawInfo) error {
	name := path[:len(path)-1]
	if bytes.IndexByte(name, '/') >= 0 || name[0] == '.' && len(name) <= 2 {
		return openBelow(dir, path, out)
	}
	switch errno := rawLook(dir, path, out); {
	case errno != 0:
		return errno
	case out.Type() != syscall.S_IFDIR:
		return syscall.ENOTDIR
	case out.Mount != mount:
		return syscall.EXDEV
	}
	return nil
}

// openBelow is LookBelow for any path.
func openBelow(dir int, path rawName, out *rawInfo) error {
	fd, errno := rawOpenDirAt(dir, path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if errno != 0 {
		return errno
	}
	defer rawClose(fd)
	if errno = rawLook(fd, rawEmpty, out); errno != 0 {
		return errno
	}
	return nil
}

// rawReadLink returns a symlink's target, in buf; the empty name is dir itself.
func rawReadLink(dir int, name rawName, buf []byte) ([]byte, syscall.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0, 0)
	if errno == 0 && int(n) == len(buf) {
		errno = syscall.ENAMETOOLONG
	}
	if errno != 0 {
		return nil, errno
	}
	return buf[:n], 0
}

// rawOnProc tells whether fd is on a proc file system.
func rawOnProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// rawIDOf returns the number of the inode that fd is.
func rawIDOf(fd int) (hostfs.ID, syscall.Errno) {
	var i rawInfo
	errno := rawLook(fd, rawEmpty, &i)
	return i.ID, errno
}

// rawDup duplicates fd, with O_CLOEXEC.
func rawDup(fd int) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return int(n), errno
}
