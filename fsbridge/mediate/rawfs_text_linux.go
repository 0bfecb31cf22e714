package mediate

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawPathOf is where the kernel says that fd is, in the mount name space that it is in.
func rawPathOf(fd int) (string, bool) {
	var name [32]byte
	var buf [2 * 4096]byte
	path, errno := rawReadLink(unix.AT_FDCWD, rawNumbered(name[:], "/proc/self/fd/", uint64(fd)), buf[:])
	if errno != 0 {
		return "", false
	}
	return string(path), true
}

// rawReadFrom reads the beginning of the file name in dir.
func rawReadFrom(dir int, name rawName, buf []byte) (int, syscall.Errno) {
	fd, errno := rawOpenAt(dir, name, unix.O_RDONLY)
	if errno != 0 {
		return 0, errno
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	rawClose(fd)
	return int(n), errno
}

// rawSplitPath splits a path into the directory's part, which keeps its last slash, and
// the last name; slash says that slashes follow it. There is no name in a path of
// slashes alone.
func rawSplitPath(path []byte) (parent, last []byte, slash bool) {
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

// rawStretch returns how much of path, the way to a directory, [rawLookBelow] takes at once, and the rest: one name if there
// are two at most. To look at a name takes one call, to open what more of them lead to takes three.
func rawStretch(path []byte) (next, rest []byte) {
	at := bytes.IndexByte(path, '/')
	if at < 0 || bytes.Count(path, []byte{'/'}) > 2 {
		return path, nil
	}
	return path[:at], bytes.TrimLeft(path[at:], "/")
}

// rawCanRead tells whether a thread's refusal to be read says that it cannot be, and not
// that it has gone.
func rawCanRead(errno syscall.Errno) bool { return errno != syscall.EPERM && errno != syscall.EACCES }
