package mediate

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockIdentity makes the thread the goroutine's own, for ever: it ends with it. No signal
// interrupts it any more, but those of its own faults, which are panics.
func lockIdentity() {
	runtime.LockOSThread()
	const faults = 1<<(unix.SIGSEGV-1) | 1<<(unix.SIGBUS-1) | 1<<(unix.SIGFPE-1)
	all := ^uint64(faults)
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
}

// threadIdentity is who a thread is on file systems. An ordinary user is the workload. Root
// serves a workload of another number: it walks the guest's view under that one, and
// works on the host's mount as the starter, whom the guest's idmapped view shows as the
// workload; without capabilities, so that the kernel checks modes as for the
// workload.
type threadIdentity struct {
	differs  bool
	depth    int    // of calls of workload
	uid, gid uint32 // the workload's
	euid     uint32
	egid     uint32

	permitted uint32 // capabilities
}

// Take gives up what the thread shall not have.
func (id *threadIdentity) Take(uid, gid uint32) error {
	id.euid, id.egid = uint32(os.Geteuid()), uint32(os.Getegid())
	id.uid, id.gid = uid, gid
	id.differs = id.euid == 0 && (uid != id.euid || gid != id.egid)
	if id.euid != 0 {
		return nil
	}
	// No change of ids gives capabilities back.
	if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, noSetuidFixup, 0); errno != 0 && id.differs {
		return fmt.Errorf("mediate: securebits: %w", errno)
	}
	if id.differs {
		// The real ids give the right to change the file system ids to and fro.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(id.egid), uintptr(id.egid)); errno != 0 {
			return fmt.Errorf("mediate: setresgid: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(id.euid), uintptr(id.euid)); errno != 0 {
			return fmt.Errorf("mediate: setresuid: %w", errno)
		}
	}
	if id.permitted = keptAlways; id.differs {
		id.permitted |= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&hdr, &has[0]); err != nil {
		return fmt.Errorf("mediate: capget: %w", err)
	}
	id.permitted &= has[0].Permitted | ^uint32(dispensable)
	if !id.differs { // who is the same user needs none: in a container, root may have less
		id.permitted &= has[0].Permitted
	}
	if errno := id.Raise(0); errno != 0 {
		return fmt.Errorf("mediate: capset: %w", errno)
	}
	return nil
}

// noSetuidFixup is SECBIT_NO_SETUID_FIXUP.
const noSetuidFixup = 1 << 2

// keptAlways is what it takes to read the caller's memory and descriptors, and to keep the
// caller on a processor.
const keptAlways = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_NICE

// dispensable is what we do without where root has not got it.
const dispensable = 1<<unix.CAP_SYS_NICE | 1<<unix.CAP_DAC_READ_SEARCH

// Raise gives the thread capabilities for a moment, of those that it has kept, and with 0
// takes them away again.
func (id *threadIdentity) Raise(caps uint32) syscall.Errno {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: (keptAlways | caps) & id.permitted, Permitted: id.permitted}}
	_, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data)), 0)
	return errno
}

// Raised has open open something with capabilities, of those that were kept: a descriptor, or -1.
func (id *threadIdentity) Raised(caps uint32, open func() int) int {
	if id.Raise(caps) != 0 {
		return -1
	}
	fd := open()
	if errno := id.Raise(0); errno != 0 {
		panic(errno) // nothing is ever in the way of giving a capability up
	}
	return fd
}

// Workload makes the thread the workload on file systems, and starter undoes that. They
// nest.
func (id *threadIdentity) Workload() {
	if id.depth++; id.differs && id.depth == 1 {
		id.become(id.uid, id.gid)
	}
}

func (id *threadIdentity) Starter() {
	if id.depth--; id.differs && id.depth == 0 {
		id.become(id.euid, id.egid)
	}
}

// Owner makes the thread the workload's user alone, which is enough to look at its descriptors,
// and, with false, the starter's again. It must not be used between workload and starter.
func (id *threadIdentity) Owner(workload bool) {
	uid := id.euid
	if workload {
		uid = id.uid
	}
	if id.differs {
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	}
}

// Peer makes the thread the workload for whoever is connected to and asks who that was (SO_PEERCRED), and on file systems; with false, that ends. It must not be used between Workload and Starter.
func (id *threadIdentity) Peer(workload bool) {
	if !id.differs {
		return
	}
	uid, gid := id.euid, id.egid
	if workload {
		uid, gid = id.uid, id.gid
	}
	const same = ^uintptr(0)
	_, _, egid := unix.RawSyscall(unix.SYS_SETRESGID, same, uintptr(gid), same)
	_, _, euid := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same)
	if !workload && (egid != 0 || euid != 0) {
		panic(errors.Join(egid, euid)) // the saved ids are the starter's: nothing is in the way
	}
}

// Reset makes the thread the starter after a panic.
func (id *threadIdentity) Reset() {
	id.depth = 1
	id.Starter()
}

func (id *threadIdentity) become(uid, gid uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0) // they return the former one and no error
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
}

// setThreadUmask sets the thread's umask.
func setThreadUmask(mask uint32) { _, _, _ = unix.RawSyscall(unix.SYS_UMASK, uintptr(mask), 0, 0) }
