package mediate

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The seccomp user notification ABI (linux/seccomp.h).

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32 // the thread that waits, as we number it
	flags uint32
	data  seccompData
}

// seccompData is struct seccomp_data.
type seccompData struct {
	nr   int32
	arch uint32
	ip   uint64
	args [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	errno int32 // negative, or 0
	flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id         uint64
	flags      uint32
	srcFD      uint32
	newFD      uint32
	newFDFlags uint32
}

const (
	respContinue = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	syncWakeUp   = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP

	ioctlRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	ioctlSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	ioctlIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	ioctlAddFD    = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	ioctlSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

// listener is the descriptor on which notifications come.
type listener struct{ fd int }

// notifSizes is struct seccomp_notif_sizes.
type notifSizes struct{ notif, resp, data uint16 }

// newListener checks that this kernel's structures are as ours and asks for
// synchronous wake-ups, which is a matter of speed alone.
func newListener(fd int) (listener, error) {
	var sizes notifSizes
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if errno != 0 {
		return listener{}, fmt.Errorf("mediate: this kernel has no seccomp user notification: %w", errno)
	}
	if sizes.notif != uint16(unsafe.Sizeof(notification{})) || sizes.resp != uint16(unsafe.Sizeof(response{})) {
		return listener{}, fmt.Errorf("mediate: this kernel's notifications have %d bytes and its responses %d: %w",
			sizes.notif, sizes.resp, errors.ErrUnsupported)
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlSetFlags, syncWakeUp)
	return listener{fd}, nil
}

func (l listener) ioctl(request uintptr, arg unsafe.Pointer) (uintptr, syscall.Errno) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), request, uintptr(arg))
	return r, errno
}

// quick is ioctl for what does not wait: the scheduler need not know.
func (l listener) quick(request uintptr, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), request, uintptr(arg))
	return errno
}

// receive takes the next notification. ENOENT: its caller has gone.
func (l listener) receive(n *notification) syscall.Errno {
	*n = notification{} // the kernel insists
	_, errno := l.ioctl(ioctlRecv, unsafe.Pointer(n))
	return errno
}

// send answers. ENOENT: the caller has gone.
func (l listener) send(r *response) syscall.Errno { return l.quick(ioctlSend, unsafe.Pointer(r)) }

// valid tells whether the caller still waits. What was read of a process by its
// number is the caller's only if it does.
func (l listener) valid(id *uint64) bool { return l.quick(ioctlIDValid, unsafe.Pointer(id)) == 0 }

// inject makes src a descriptor of the caller's, and returns its number. The caller goes
// on waiting: an answer sent by the same call would leave our own copy open, with
// which a program that the caller executes next could be busy (ETXTBSY) and a lock be
// held for longer, and gave wrong numbers while we were stopped.
func (l listener) inject(id uint64, src int, flags uint32) (int, syscall.Errno) {
	a := addFD{id: id, srcFD: uint32(src), newFDFlags: flags}
	for {
		fd, errno := l.ioctl(ioctlAddFD, unsafe.Pointer(&a))
		if errno == syscall.EINTR { // it was taken back
			continue
		}
		return int(fd), errno
	}
}
