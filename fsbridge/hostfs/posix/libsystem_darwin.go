package posix

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:linkname syscallSyscall syscall.syscall
func syscallSyscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)

//go:linkname syscallSyscall6 syscall.syscall6
func syscallSyscall6(fn, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err syscall.Errno)

// The addresses of what libsystem_darwin.s has.
var futimensAddress, getattrlistAddress uintptr

//go:cgo_import_dynamic libc_futimens futimens "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_getattrlist getattrlist "/usr/lib/libSystem.B.dylib"

// futimens sets times in nanoseconds; unix.Futimes has microseconds.
func futimens(fd int, times *[2]unix.Timespec) error {
	if _, _, e := syscallSyscall(futimensAddress, uintptr(fd), uintptr(unsafe.Pointer(times)), 0); e != 0 {
		return e
	}
	return nil
}

// volumeUUID returns the UUID of the volume that is mounted at path.
func volumeUUID(path string) (id [16]byte, ok bool) {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return id, false
	}
	const volumeInfo, volumeUUID = 0x80000000, 0x40000 // ATTR_VOL_INFO, ATTR_VOL_UUID
	list := unix.Attrlist{Bitmapcount: 5, Volattr: volumeInfo | volumeUUID}
	var answer struct {
		length uint32
		uuid   [16]byte
	}
	_, _, e := syscallSyscall6(getattrlistAddress, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&list)),
		uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0)
	return answer.uuid, e == 0 && uintptr(answer.length) >= unsafe.Sizeof(answer) && answer.uuid != id
}
