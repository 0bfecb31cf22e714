package filters

import "golang.org/x/sys/unix"

// mediatedCalls go to the listener whatever their arguments: fsbridge/mediate lists
// them, and what it does with each.
var mediatedCalls = []uint32{
	unix.SYS_TRUNCATE,
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_UNLINKAT,
	unix.SYS_RENAMEAT2,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
	unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_BIND, unix.SYS_UMASK,
}

// changingFlags of an open need the listener's answer.
const changingFlags = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// retTold sends a call to the listener, which refuses it with EPERM and counts it: the kernel looks at no error of this answer,
// [Explain] does.
const retTold = retNotify | uint32(unix.EPERM)

// mediatedRules adds what the mediated bridge asks for.
func mediatedRules(m map[uint32]rule, debug bool) {
	if !debug {
		m[unix.SYS_PTRACE] = rule{ret: retTold}
	}
	m[unix.SYS_SECCOMP] = anyBit(offArg1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, retNotify|uint32(unix.EBUSY)) // told as well
	for _, nr := range mediatedCalls {
		m[nr] = rule{ret: retNotify}
	}
	for _, nr := range archMediated {
		m[nr] = rule{ret: retNotify}
	}
	for nr, off := range archOpen {
		m[nr] = anyBit(off, changingFlags, retNotify)
	}
	m[unix.SYS_OPENAT2] = rule{ret: retNosys} // its flags are in memory, and may be others when the kernel looks
	m[unix.SYS_OPENAT] = anyBit(offArg2, changingFlags, retNotify)
	for nr, off := range archAccess {
		m[nr] = anyBit(off, unix.W_OK, retNotify)
	}
	m[unix.SYS_FACCESSAT] = anyBit(offArg2, unix.W_OK, retNotify)
	m[unix.SYS_FACCESSAT2] = anyBit(offArg2, unix.W_OK, retNotify)
	m[unix.SYS_FILE_SETATTR] = rule{ret: retPerm}
	// Who restricts himself by Landlock restricts the calls that the kernel performs for him, not those that the listener does: he would write all the same.
	m[unix.SYS_LANDLOCK_CREATE_RULESET] = rule{ret: retNotSup}
	// Whether a process is there: one outside may be meant, by its number in a file of the folder.
	m[unix.SYS_KILL] = oneOf(offArg1, retNotify, 0)
	// A lease on a granted file would hold up whoever opens it outside, us too.
	m[unix.SYS_FCNTL] = oneOf(offArg1, retPerm, unix.F_SETLEASE)
}
