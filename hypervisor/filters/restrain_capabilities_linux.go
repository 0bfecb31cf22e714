package filters

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capability is a right of root.
type Capability struct {
	Number int
	Allows string
}

// GivenUp are the rights that no session needs. What is left does what sessions are for: files of any owner and kind are kept and put back, users are mapped and imitated, callers' memory is read,
// the jail's mounts are prepared, ports below 1024 are published.
func GivenUp() []Capability {
	return []Capability{
		{unix.CAP_NET_BROADCAST, "nothing yet"},
		{unix.CAP_IPC_LOCK, "more locked memory than the limit"},
		{unix.CAP_IPC_OWNER, "queues, semaphores and shared memory of others"},
		{unix.CAP_SYS_MODULE, "kernel modules"},
		{unix.CAP_SYS_RAWIO, "ports, physical memory and disks' raw commands"},
		{unix.CAP_SYS_CHROOT, "another root directory, other mount namespaces"},
		{unix.CAP_SYS_PACCT, "process accounting"},
		{unix.CAP_SYS_BOOT, "reboots, other kernels"},
		{unix.CAP_SYS_TIME, "the clock"},
		{unix.CAP_SYS_TTY_CONFIG, "hanging up others' terminals"},
		{unix.CAP_AUDIT_WRITE, "records in the kernel's audit log"},
		{unix.CAP_AUDIT_CONTROL, "rules of the kernel's audit"},
		{unix.CAP_AUDIT_READ, "the kernel's audit log"},
		{unix.CAP_MAC_OVERRIDE, "what a security module denies"},
		{unix.CAP_SYSLOG, "the kernel's log and addresses"},
		{unix.CAP_WAKE_ALARM, "waking the machine"},
		{unix.CAP_BLOCK_SUSPEND, "keeping the machine awake"},
		{unix.CAP_PERFMON, "performance counters of all processes"},
		{unix.CAP_BPF, "programs in the kernel"},
		{unix.CAP_CHECKPOINT_RESTORE, "choosing process numbers, others' memory maps"},
	}
}

// Capabilities gives [GivenUp] up, in all threads, if the process is root's. It must be called before any thread has other rights than the rest: before
// the first session, and before anything is probed. Again does no harm. In a program with cgo, as the race detector makes them, it does nothing, and returns an error.
//
// What the process executes as root has them again, as far as the bounding set goes: commands without isolation are the user's own.
func Capabilities() error {
	if os.Geteuid() != 0 {
		return nil
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	if !slices.ContainsFunc(GivenUp(), func(c Capability) bool { return data[c.Number/32].Permitted&(1<<(c.Number%32)) != 0 }) {
		return nil
	}
	for _, c := range GivenUp() {
		word, bit := &data[c.Number/32], uint32(1)<<(c.Number%32)
		word.Permitted &^= bit
		word.Effective &^= bit
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 {
		return fmt.Errorf("giving up capabilities: %w", errno)
	}
	return nil
}
