package script

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cloneVM calls clone or clone3 with two arguments and returns what that returns to us. The child
// does what [runCalls] does, without a stack.
//
//go:noescape
func cloneVM(s *Script, call, first, second uintptr) (r uintptr)

// Child is the flags of a call of clone with which both processes go on with the script.
const Child = unix.CLONE_VM | unix.CLONE_VFORK | uintptr(unix.SIGCHLD)

// beside is clone without clone3, which a jail's filter does not let pass.
//
//go:norace
//go:nosplit
func beside(_ uintptr, s *Script) (pid uintptr, errno syscall.Errno) {
	r := cloneVM(s, unix.SYS_CLONE, unix.CLONE_VM|uintptr(unix.SIGCHLD), 0)
	if r <= ^uintptr(4095) {
		return r, 0
	}
	return 0, syscall.Errno(-r)
}

// clone makes a process that runs the script. Until it executes the shim it
// shares our memory, as vfork's child does: to copy the page tables of a program
// of our size, to throw the copy away and meanwhile to take a fault at each first
// write of ours took longer than to make the namespaces. But unlike vfork's
// parent we run on.
//
// Sharing is safe because the child writes nothing but the script, uses no stack
// and runs nothing of Go's: neither its code, into which the race detector and
// coverage put calls of their runtimes, nor our signal handlers, which it never
// has. Inside there is no other process that could reach our memory through it.
// Outside are the user's own, which can trace neither it nor us: the memory is not
// dumpable (see package filters). Also when a child of root's takes on another
// user's id, the kernel makes the memory, which is ours, not dumpable, so that no
// process of that user can trace either of us. We stay like that, which does not
// keep root from anything.
//
//go:norace
//go:nosplit
func clone(flags uintptr, s *Script) (pid uintptr, errno syscall.Errno) {
	const exitSignal = 4    // in struct clone_args, as a word
	const firstVersion = 64 // its size, in bytes
	s.clone[0] = uint64(flags) | unix.CLONE_VM | unix.CLONE_CLEAR_SIGHAND
	s.clone[exitSignal] = uint64(unix.SIGCHLD)
	r := cloneVM(s, unix.SYS_CLONE3, uintptr(unsafe.Pointer(&s.clone)), firstVersion)
	if r <= ^uintptr(4095) {
		return r, 0
	}
	if errno := syscall.Errno(-r); errno != unix.ENOSYS && errno != unix.EPERM {
		return 0, errno
	}
	return cloneCopy(flags, s) // a container may forbid clone3, whose flags its filter cannot see
}
