package filters

import "golang.org/x/sys/unix"

// Confined is the filter of a guest without namespaces: it is that of a mediated jail, and
// refuses what a namespace or a read-only mount would otherwise keep the workload from.
func Confined(debug bool, sharing Sharing) []unix.SockFilter {
	return compile(rules(Settings{Debug: debug, Confined: true, Sharing: sharing}))
}

// unnamed are calls that reach what has no path, which only namespaces keep apart.
var unnamed = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// confinedRules adds what a guest without namespaces needs.
func confinedRules(m map[uint32]rule) {
	for _, nr := range unnamed {
		m[nr] = rule{ret: retNosys}
	}
	m[unix.SYS_FANOTIFY_INIT] = rule{ret: retPerm}
	// No network: it would be the host's. And no unix sockets: whoever listens on one
	// outside, as this user, does what he is asked. Netlink tells what interfaces there are.
	// Who wants the network is told.
	sockets := onlyIf(offArg0, retNoFam, unix.AF_NETLINK)
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		sockets.tests = append(sockets.tests, ruleTest{code: bpfJeq, k: family, ret: retNotify | uint32(unix.EAFNOSUPPORT)})
	}
	m[unix.SYS_SOCKET] = sockets
	// One of a pair of datagram sockets could be connected to another's name.
	var pairs []uint32
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		for _, flags := range []uint32{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
			pairs = append(pairs, kind|flags)
		}
	}
	m[unix.SYS_SOCKETPAIR] = onlyIf(offArg1, retNoFam, pairs...)
	// The limits of another process of this user: the supervisor's, too.
	m[unix.SYS_PRLIMIT64] = onlyIf(offArg0, retPerm, 0)
	// The supervisor has to be able to read the caller's memory. It is not told.
	m[unix.SYS_PRCTL] = oneOf(offArg0, retDone, unix.PR_SET_DUMPABLE)
}

// retDone makes the call succeed without being performed.
const retDone = unix.SECCOMP_RET_ERRNO

// onlyIf makes a rule for calls whose argument has to be one of these.
func onlyIf(off, ret uint32, values ...uint32) rule {
	r := oneOf(off, retAllow, values...)
	r.rest = ret
	return r
}
