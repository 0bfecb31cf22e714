package rawfs

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Name is a buffer that holds a name and a NUL.
type Name []byte

// Names that are used all day.
var (
	Empty  = Name("\x00")
	Cwd    = Name("cwd\x00")
	DotDot = Name("..\x00")
)

// Terminated returns name with a NUL, in buf if that has room.
func Terminated(buf []byte, name []byte) Name { return append(append(buf[:0], name...), 0) }

// Numbered returns prefix, the number and a NUL in buf.
func Numbered(buf []byte, prefix string, n uint64) Name {
	return append(strconv.AppendUint(append(buf[:0], prefix...), n, 10), 0)
}

// OpenAt is openat(2) with O_CLOEXEC.
func OpenAt(dir int, name Name, flags int) (int, syscall.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
			uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		return int(fd), errno
	}
}

// OpenDirAt opens a directory, O_PATH, with RESOLVE_* flags.
func OpenDirAt(dir int, path Name, resolve uint64) (int, syscall.Errno) {
	return OpenPathAt(dir, path, unix.O_DIRECTORY, resolve)
}

// OpenPathAt is openat2(2) with O_PATH, O_CLOEXEC, the given flags and RESOLVE_* flags. The
// kernel answers EAGAIN where a path has ".." and something was renamed anywhere in the
// meantime: then it is asked again, a bounded number of times.
func OpenPathAt(dir int, path Name, flags int, resolve uint64) (fd int, errno syscall.Errno) {
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

// Close closes fd unless it is negative.
func Close(fd int) {
	if fd >= 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}

// Info is what we want to know of a file in the caller's view.
type Info struct {
	ID    hostfs.ID
	Mount uint64
	Mode  uint32
	Nlink uint32
	Size  uint64
}

// Type is the file's type, of its mode.
func (i *Info) Type() uint32 { return i.Mode & syscall.S_IFMT }

// Look describes name in dir, which is not followed; the empty name is dir itself.
func Look(dir int, name Name, out *Info) syscall.Errno {
	return Describe(dir, name, unix.AT_SYMLINK_NOFOLLOW, out)
}

// Describe is Look with flags of its own.
func Describe(dir int, name Name, flags int, out *Info) syscall.Errno {
	var st unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_INO | unix.STATX_NLINK | unix.STATX_SIZE | unix.STATX_MNT_ID
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
		uintptr(flags|unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT), want, uintptr(unsafe.Pointer(&st)), 0)
	if errno != 0 {
		return errno
	}
	*out = Info{
		ID:    hostfs.ID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino},
		Mount: st.Mnt_id, Mode: uint32(st.Mode), Nlink: st.Nlink, Size: st.Size,
	}
	return 0
}

// LookBelow describes the directory to which path leads from dir, below it and on its mount, which is given, without symlinks.
func LookBelow(dir int, path Name, mount uint64, out *Info) error {
	name := path[:len(path)-1]
	if bytes.IndexByte(name, '/') >= 0 || name[0] == '.' && len(name) <= 2 {
		return openBelow(dir, path, out)
	}
	switch errno := Look(dir, path, out); {
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
func openBelow(dir int, path Name, out *Info) error {
	fd, errno := OpenDirAt(dir, path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if errno != 0 {
		return errno
	}
	defer Close(fd)
	if errno = Look(fd, Empty, out); errno != 0 {
		return errno
	}
	return nil
}

// ReadLink returns a symlink's target, in buf; the empty name is dir itself.
func ReadLink(dir int, name Name, buf []byte) ([]byte, syscall.Errno) {
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

// OnProc tells whether fd is on a proc file system.
func OnProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// IDOf returns the number of the inode that fd is.
func IDOf(fd int) (hostfs.ID, syscall.Errno) {
	var i Info
	errno := Look(fd, Empty, &i)
	return i.ID, errno
}

// Dup duplicates fd, with O_CLOEXEC.
func Dup(fd int) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return int(n), errno
}
