package jail

import "golang.org/x/sys/unix"

// denied system calls fail with EPERM. Most of them need capabilities that
// nobody inside has; the filter keeps their code out of reach as well.
var denied = []uint32{
	// The kernel itself.
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
	// The mount view.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, 467, // open_tree_attr
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SETNS,
	// Ways around the filter.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// The user's keys outlive the session.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
}

// tracing is denied unless debugging is allowed.
var tracing = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE,
}

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	newTime   = 0x80 // CLONE_NEWTIME; in clone these bits are the exit signal
	tioclinux = 0x541c

	// Offsets in struct seccomp_data, of the low words (little endian).
	offNr, offArch, offArg0, offArg1 = 0, 4, 16, 24
)

// filter builds the program. Order: architecture, other ABIs, plain numbers,
// numbers that depend on an argument.
func filter(debug bool) []unix.SockFilter {
	const (
		retAllow = unix.SECCOMP_RET_ALLOW
		retPerm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		retNosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		retNoFam = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)

		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jeq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		jge  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		jset = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	var p []unix.SockFilter
	add := func(code uint16, k uint32, jt, jf uint8) {
		p = append(p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	// returnIf: on a match return r, else go on.
	returnIf := func(code uint16, k, r uint32) {
		add(code, k, 0, 1)
		add(ret, r, 0, 0)
	}
	// argument: for call nr, return r if a test of the argument at off matches.
	argument := func(nr, off uint32, code uint16, r uint32, ks ...uint32) {
		add(jeq, nr, 0, uint8(2+2*len(ks)))
		add(load, off, 0, 0)
		for _, k := range ks {
			returnIf(code, k, r)
		}
		add(ret, retAllow, 0, 0)
	}
	add(load, offArch, 0, 0)
	add(jeq, auditArch, 1, 0)
	add(ret, retNosys, 0, 0)
	add(load, offNr, 0, 0)
	if x32Bit != 0 {
		returnIf(jge, x32Bit, retNosys)
	}
	for _, nr := range denied {
		returnIf(jeq, nr, retPerm)
	}
	for _, nr := range archDenied {
		returnIf(jeq, nr, retPerm)
	}
	if !debug {
		for _, nr := range tracing {
			returnIf(jeq, nr, retPerm)
		}
	}
	// The flags of clone3 lie in memory; C libraries fall back to clone.
	returnIf(jeq, unix.SYS_CLONE3, retNosys)
	argument(unix.SYS_CLONE, offArg0, jset, retPerm, newNamespaces)
	argument(unix.SYS_UNSHARE, offArg0, jset, retPerm, newNamespaces|newTime)
	// The kernel looks at the low word only, so we do.
	argument(unix.SYS_IOCTL, offArg1, jeq, retPerm, unix.TIOCSTI, tioclinux)
	// A virtual machine's hypervisor is not in our network namespace.
	argument(unix.SYS_SOCKET, offArg0, jeq, retNoFam, unix.AF_VSOCK)
	add(ret, retAllow, 0, 0)
	return p
}
