package notify

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pageSize  = 4096 // the smallest there is: what is in one page is there or not
	firstLook = 256  // most paths are shorter, and a whole page takes three times as long to copy
)

// readMemory copies from the caller's memory. What it read is the caller's only if the
// caller is found waiting afterwards ([Listener.Valid]).
func readMemory(tid uint32, addr uint64, dst []byte) (int, syscall.Errno) {
	if len(dst) == 0 {
		return 0, 0
	}
	local := unix.Iovec{Base: unsafe.SliceData(dst)}
	local.SetLen(len(dst))
	remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(dst)}
	n, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(tid), uintptr(unsafe.Pointer(&local)), 1,
		uintptr(unsafe.Pointer(&remote)), 1, 0)
	return int(n), errno
}

// ReadExactly is readMemory for all of dst.
func ReadExactly(tid uint32, addr uint64, dst []byte) syscall.Errno {
	n, errno := readMemory(tid, addr, dst)
	if errno == 0 && n < len(dst) {
		errno = syscall.EFAULT
	}
	return errno
}

// Write copies all of src to the caller's memory.
func Write(tid uint32, addr uint64, src []byte) syscall.Errno {
	local := unix.Iovec{Base: unsafe.SliceData(src)}
	local.SetLen(len(src))
	remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(src)}
	n, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_WRITEV, uintptr(tid), uintptr(unsafe.Pointer(&local)), 1,
		uintptr(unsafe.Pointer(&remote)), 1, 0)
	if errno == 0 && int(n) < len(src) {
		errno = syscall.EFAULT
	}
	return errno
}

// ReadString reads a string that ends with a NUL into buf, and returns it without:
// ENAMETOOLONG if there is none in all of buf. It never reads from a page after the one
// with the NUL, which may not be there.
func ReadString(tid uint32, addr uint64, buf []byte) ([]byte, syscall.Errno) {
	for got := 0; got < len(buf); {
		at := addr + uint64(got)
		part := buf[got:min(len(buf), got+int(pageSize-at%pageSize))]
		if got == 0 {
			part = part[:min(len(part), firstLook)]
		}
		n, errno := readMemory(tid, at, part)
		if errno != 0 {
			return nil, errno
		}
		if n == 0 {
			return nil, syscall.EFAULT
		}
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			return buf[:got+end], 0
		}
		got += n
	}
	return nil, syscall.ENAMETOOLONG
}
