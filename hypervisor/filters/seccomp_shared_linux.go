package filters

import "golang.org/x/sys/unix"

// Sharing says how the sockets of a guest are looked at that is in the network namespace of the supervisor. It goes with Mediated and with Confined: the listener
// makes the connections. Landlock refuses those by TCP that anybody else makes, and abstract sockets of others.
type Sharing int

// The degrees of sharing.
const (
	// NotShared: the guest has a network namespace of its own or, with Confined, no sockets.
	NotShared Sharing = iota
	// SharedConnections sends connections to the listener; datagrams are the kernel's.
	SharedConnections
	// SharedKept is SharedConnections where the listener cannot copy the guest's descriptors: it makes the sockets for TCP, too.
	SharedKept
	// SharedDatagrams also sends each datagram to the listener that can name where it goes.
	SharedDatagrams
)

const (
	retNoProtocol = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
	retNoType     = unix.SECCOMP_RET_ERRNO | uint32(unix.ESOCKTNOSUPPORT)

	sockTypeMask = 0xf // the other bits of the type are flags

	// The address in sendto, of which the filter sees whether there is one: both words.
	offArg4, offArg4High = 48, 52
)

// sharedRules adds what keeps sockets of the host's network namespace in bounds.
func sharedRules(m map[uint32]rule, s Settings) {
	m[unix.SYS_SOCKET] = sharedSockets(s)
	m[unix.SYS_CONNECT] = rule{ret: retNotify}
	// What is sent, and a connection that begins with it, would go to the first stop of a route that the caller has set.
	route := oneOf(offArg2, retPerm, unix.IP_OPTIONS, unix.IPV6_2292PKTOPTIONS, unix.IPV6_RTHDR)
	// A connection that is made by sending does not pass connect, nor Landlock.
	deferred := oneOf(offArg2, retNotSup, unix.TCP_FASTOPEN_CONNECT)
	m[unix.SYS_SETSOCKOPT] = rule{off: offArg1, tests: []ruleTest{
		{code: bpfJeq, k: unix.SOL_IP, then: &route}, {code: bpfJeq, k: unix.SOL_IPV6, then: &route}, {code: bpfJeq, k: unix.SOL_TCP, then: &deferred},
	}}
	fast := func(off uint32) rule { return anyBit(off, unix.MSG_FASTOPEN, retNotSup) }
	to, with, more := fast(offArg3), fast(offArg2), fast(offArg3)
	if s.Sharing == SharedDatagrams {
		to.tests = append(to.tests, ruleTest{off: offArg4, code: bpfJset, k: 1<<32 - 1, ret: retNotify}, ruleTest{off: offArg4High, code: bpfJset, k: 1<<32 - 1, ret: retNotify})
		with.rest, more.rest = retNotify, retNotify
	}
	m[unix.SYS_SENDTO], m[unix.SYS_SENDMSG], m[unix.SYS_SENDMMSG] = to, with, more
}

// sharedSockets are the sockets that there may be: TCP, UDP and pings by datagrams. Others over IP (SCTP, MPTCP, ...) find their way by calls that nobody looks at.
func sharedSockets(s Settings) rule {
	made := uint32(retAllow)
	if s.Sharing == SharedKept {
		made = retNotify
	}
	streams := oneOf(offArg2, made, 0, unix.IPPROTO_TCP)
	streams.rest = retNoProtocol
	datagrams := onlyIf(offArg2, retNoProtocol, 0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6)
	ip := rule{off: offArg1, rest: retNoType, tests: []ruleTest{
		{code: bpfJeq, k: unix.SOCK_STREAM, mask: sockTypeMask, then: &streams}, {code: bpfJeq, k: unix.SOCK_DGRAM, mask: sockTypeMask, then: &datagrams},
	}}
	r := rule{off: offArg0, rest: retNoFam, tests: []ruleTest{
		{code: bpfJeq, k: unix.AF_NETLINK, ret: retAllow}, {code: bpfJeq, k: unix.AF_INET, then: &ip}, {code: bpfJeq, k: unix.AF_INET6, then: &ip},
	}}
	if !s.Confined { // there, whoever listens on one outside does what this user asks
		r.tests = append(r.tests, ruleTest{code: bpfJeq, k: unix.AF_UNIX, ret: retAllow})
	}
	return r
}
