package notify

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The seccomp user notification ABI (linux/seccomp.h).

// Notification is struct seccomp_notif.
type Notification struct {
	ID    uint64
	PID   uint32 // the thread that waits, as we number it
	flags uint32
	Data  Data
}

// Data is struct seccomp_data.
type Data struct {
	NR   int32
	Arch uint32
	IP   uint64
	Args [6]uint64
}

// Response is struct seccomp_notif_resp.
type Response struct {
	ID    uint64
	Val   int64
	Errno int32  // negative, or 0
	Flags uint32 // 0 or Continue
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
	// Continue has the kernel perform the call.
	Continue   = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	syncWakeUp = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP

	ioctlRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	ioctlSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	ioctlIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	ioctlAddFD    = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	ioctlSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

// Listener is the descriptor on which notifications come.
type Listener struct{ FD int }

// notifSizes is struct seccomp_notif_sizes.
type notifSizes struct{ notif, resp, data uint16 }

// New checks that this kernel's structures are as ours and asks for
// synchronous wake-ups, which is a matter of speed alone.
func New(fd int) (Listener, error) {
	var sizes notifSizes
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if errno != 0 {
		return Listener{}, fmt.Errorf("mediate: this kernel has no seccomp user notification: %w", errno)
	}
	if sizes.notif != uint16(unsafe.Sizeof(Notification{})) || sizes.resp != uint16(unsafe.Sizeof(Response{})) {
		return Listener{}, fmt.Errorf("mediate: this kernel's notifications have %d bytes and its responses %d: %w",
			sizes.notif, sizes.resp, errors.ErrUnsupported)
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlSetFlags, syncWakeUp)
	return Listener{fd}, nil
}

func (l Listener) ioctl(request uintptr, arg unsafe.Pointer) (uintptr, syscall.Errno) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.FD), request, uintptr(arg))
	return r, errno
}

// quick is ioctl for what does not wait: the scheduler need not know.
func (l Listener) quick(request uintptr, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.FD), request, uintptr(arg))
	return errno
}

// Receive takes the next notification. ENOENT: its caller has gone.
func (l Listener) Receive(n *Notification) syscall.Errno {
	*n = Notification{} // the kernel insists
	_, errno := l.ioctl(ioctlRecv, unsafe.Pointer(n))
	return errno
}

// Send answers. ENOENT: the caller has gone.
func (l Listener) Send(r *Response) syscall.Errno { return l.quick(ioctlSend, unsafe.Pointer(r)) }

// Valid tells whether the caller still waits. What was read of a process by its
// number is the caller's only if it does.
func (l Listener) Valid(id *uint64) bool { return l.quick(ioctlIDValid, unsafe.Pointer(id)) == 0 }

// Inject makes src a descriptor of the caller's, and returns its number. The caller goes
// on waiting: an answer sent by the same call would leave our own copy open, with
// which a program that the caller executes next could be busy (ETXTBSY) and a lock be
// held for longer, and gave wrong numbers while we were stopped.
func (l Listener) Inject(id uint64, src int, flags uint32) (int, syscall.Errno) {
	a := addFD{id: id, srcFD: uint32(src), newFDFlags: flags}
	for {
		fd, errno := l.ioctl(ioctlAddFD, unsafe.Pointer(&a))
		if errno == syscall.EINTR { // it was taken back
			continue
		}
		return int(fd), errno
	}
}
