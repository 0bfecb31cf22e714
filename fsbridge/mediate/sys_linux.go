package mediate

import (
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// System calls on names that end with a NUL: package unix copies each string to add
// one.

// cstr is a buffer that holds a name and a NUL.
type cstr []byte

var (
	cEmpty  = cstr("\x00")
	cCwd    = cstr("cwd\x00")
	cDotDot = cstr("..\x00")
)

// terminated returns name with a NUL, in buf if that has room.
func terminated(buf []byte, name []byte) cstr { return append(append(buf[:0], name...), 0) }

// numbered returns prefix, the number and a NUL in buf.
func numbered(buf []byte, prefix string, n uint64) cstr {
	return append(strconv.AppendUint(append(buf[:0], prefix...), n, 10), 0)
}

func openAt(dir int, name cstr, flags int) (int, syscall.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
			uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		return int(fd), errno
	}
}

// openDirAt opens a directory, O_PATH, with RESOLVE_* flags.
func openDirAt(dir int, path cstr, resolve uint64) (int, syscall.Errno) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve}
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(path))),
		uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
	return int(fd), errno
}

func closeFD(fd int) {
	if fd >= 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}

// info is what we want to know of a file in the caller's view.
type info struct {
	id    hostfs.ID
	mount uint64
	mode  uint32
	nlink uint32
	size  uint64
}

func (i *info) typ() uint32 { return i.mode & syscall.S_IFMT }

// look describes name in dir, which is not followed; the empty name is dir itself.
func look(dir int, name cstr, out *info) syscall.Errno {
	return describe(dir, name, unix.AT_SYMLINK_NOFOLLOW, out)
}

// describe is look with flags of its own.
func describe(dir int, name cstr, flags int, out *info) syscall.Errno {
	var st unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_INO | unix.STATX_NLINK | unix.STATX_SIZE | unix.STATX_MNT_ID
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
		uintptr(flags|unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT), want, uintptr(unsafe.Pointer(&st)), 0)
	if errno != 0 {
		return errno
	}
	*out = info{
		id:    hostfs.ID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino},
		mount: st.Mnt_id, mode: uint32(st.Mode), nlink: st.Nlink, size: st.Size,
	}
	return 0
}

// readLink returns a symlink's target, in buf; the empty name is dir itself.
func readLink(dir int, name cstr, buf []byte) ([]byte, syscall.Errno) {
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

// onProc tells whether fd is on a proc file system.
func onProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}
