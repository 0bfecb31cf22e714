package rawfs

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PathOf is where the kernel says that fd is, in the mount name space that it is in.
func PathOf(fd int) (string, bool) {
	var name [32]byte
	var buf [2 * 4096]byte
	path, errno := ReadLink(unix.AT_FDCWD, Numbered(name[:], "/proc/self/fd/", uint64(fd)), buf[:])
	if errno != 0 {
		return "", false
	}
	return string(path), true
}

// ReadFrom reads the beginning of the file name in dir.
func ReadFrom(dir int, name Name, buf []byte) (int, syscall.Errno) {
	fd, errno := OpenAt(dir, name, unix.O_RDONLY)
	if errno != 0 {
		return 0, errno
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	Close(fd)
	return int(n), errno
}

// SplitPath splits a path into the directory's part, which keeps its last slash, and
// the last name; slash says that slashes follow it. There is no name in a path of
// slashes alone.
func SplitPath(path []byte) (parent, last []byte, slash bool) {
	end := len(path)
	for end > 0 && path[end-1] == '/' {
		end--
	}
	if end == 0 {
		return path, nil, true
	}
	at := bytes.LastIndexByte(path[:end], '/') + 1
	return path[:at], path[at:end], end < len(path)
}

// Stretch returns how much of path, the way to a directory, [LookBelow] takes at once, and the rest: one name if there
// are two at most. To look at a name takes one call, to open what more of them lead to takes three.
func Stretch(path []byte) (next, rest []byte) {
	at := bytes.IndexByte(path, '/')
	if at < 0 || bytes.Count(path, []byte{'/'}) > 2 {
		return path, nil
	}
	return path[:at], bytes.TrimLeft(path[at:], "/")
}

// CanRead tells whether a thread's refusal to be read says that it cannot be, and not
// that it has gone.
func CanRead(errno syscall.Errno) bool { return errno != syscall.EPERM && errno != syscall.EACCES }
