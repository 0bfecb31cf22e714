package filters

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tracing is denied unless debugging is allowed.
var tracing = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE,
}

// nesting is denied unless containers are allowed.
var nesting = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	newTime = 0x80 // CLONE_NEWTIME; in clone these bits are the exit signal

	// Arguments of personality: none but to ask, and ADDR_NO_RANDOMIZE.
	samePersonality, noRandomAddresses = 0xffffffff, 0x0040000

	// Offsets in struct seccomp_data, of the low words (little endian).
	offNr, offArch, offArg0, offArg1, offArg2, offArg3 = 0, 4, 16, 24, 32, 40
)

// What a filter returns.
const (
	retAllow  = unix.SECCOMP_RET_ALLOW
	retPerm   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNosys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retNotSup = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	retNoFam  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	retNotify = unix.SECCOMP_RET_USER_NOTIF
)

// ioprioUser is IOPRIO_WHO_USER (ioprio_set(2)), which golang.org/x/sys has not.
const ioprioUser = 3

// Instructions of a filter.
const (
	bpfLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfJeq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfJge  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfJset = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	bpfJump = unix.BPF_JMP | unix.BPF_JA
	bpfAnd  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	bpfRet  = unix.BPF_RET | unix.BPF_K
)

// rule is what a filter does with one system call: the first test that matches
// says what it returns, else rest, or if that is 0 the call is allowed.
type rule struct {
	off   uint32 // of the argument that is tested; 0: ret is for each such call
	ret   uint32
	rest  uint32
	tests []ruleTest
	then  *rule // unless nil, says what becomes of a call that this one allows
}

// ruleTest is a test of an argument's low word.
type ruleTest struct {
	off  uint32 // of the argument, if it is not the rule's
	code uint16 // bpfJeq or bpfJset
	k    uint32
	mask uint32 // what of the word is compared; 0: all
	ret  uint32 // if not 0, what is returned instead of the rule's
	then *rule  // unless nil, says what becomes of a call that matches
}

// argument is where the word is that the test, one of r, is of.
func (t ruleTest) argument(r rule) uint32 {
	if t.off != 0 {
		return t.off
	}
	return r.off
}

// returns is what a filter returns if the test, one of r, matches.
func (t ruleTest) returns(r rule) uint32 {
	if t.ret != 0 {
		return t.ret
	}
	return r.ret
}

// otherwise is what a filter returns if no test matches.
func (r rule) otherwise() uint32 {
	if r.rest != 0 {
		return r.rest
	}
	return retAllow
}

// anyBit makes a rule for calls whose argument has one of the bits.
func anyBit(off, bits, ret uint32) rule {
	return rule{off: off, ret: ret, tests: []ruleTest{{code: bpfJset, k: bits}}}
}

// oneOf makes a rule for calls whose argument is one of these.
func oneOf(off, ret uint32, values ...uint32) rule {
	r := rule{off: off, ret: ret}
	for _, v := range values {
		r.tests = append(r.tests, ruleTest{code: bpfJeq, k: v})
	}
	return r
}

func (r rule) program() []unix.SockFilter {
	if r.off == 0 {
		return []unix.SockFilter{{Code: bpfRet, K: r.ret}}
	}
	p := []unix.SockFilter{{Code: bpfLoad, K: r.off}}
	for _, t := range r.tests {
		if t.off != 0 {
			p = append(p, unix.SockFilter{Code: bpfLoad, K: t.off})
		}
		if t.mask != 0 {
			p = append(p, unix.SockFilter{Code: bpfAnd, K: t.mask})
		}
		matched := []unix.SockFilter{{Code: bpfRet, K: t.returns(r)}}
		if t.then != nil {
			matched = t.then.program() // some instructions
		}
		p = append(append(p, unix.SockFilter{Code: t.code, K: t.k, Jf: uint8(len(matched))}), matched...)
		if t.off != 0 || t.mask != 0 {
			p = append(p, unix.SockFilter{Code: bpfLoad, K: r.off})
		}
	}
	p = append(p, unix.SockFilter{Code: bpfRet, K: r.otherwise()})
	if r.then == nil {
		return p
	}
	for i, in := range p {
		if in.Code == bpfRet && in.K == retAllow {
			p[i] = unix.SockFilter{Code: bpfJump, K: uint32(len(p) - i - 1)}
		}
	}
	return append(p, r.then.program()...)
}

// rules says what happens to each system call of the table.
func rules(s Settings) map[uint32]rule {
	m := make(map[uint32]rule, len(numbers))
	for _, f := range families {
		for _, name := range f.Calls {
			if nr, ok := numberOf(name); ok {
				m[nr] = rule{ret: f.Verdict.returns()}
			}
		}
	}
	if !s.Debug {
		for _, nr := range tracing {
			m[nr] = rule{ret: retPerm}
		}
	}
	if !s.Containers {
		for _, nr := range nesting {
			m[nr] = rule{ret: retPerm}
		}
		m[unix.SYS_CLONE] = anyBit(offArg0, newNamespaces, retPerm)
		m[unix.SYS_UNSHARE] = anyBit(offArg0, newNamespaces|newTime, retPerm)
	}
	m[unix.SYS_IOCTL] = ioctlRule(s)
	// The first process inside: without descriptors, or memory, it would end, and with it all that is inside.
	m[unix.SYS_PRLIMIT64] = oneOf(offArg0, retPerm, 1)
	// What it starts has its priority and processors. The number may also be that of its group, and all processes of a user are others', too.
	for _, nr := range []uint32{unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR} {
		m[nr] = oneOf(offArg0, retPerm, 1)
	}
	for nr, user := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_USER, unix.SYS_IOPRIO_SET: ioprioUser} {
		r := oneOf(offArg1, retPerm, 1)
		r.tests = append(r.tests, ruleTest{off: offArg0, code: bpfJeq, k: user})
		m[nr] = r
	}
	// A virtual machine's hypervisor is not in our network namespace.
	m[unix.SYS_SOCKET] = oneOf(offArg0, retNoFam, unix.AF_VSOCK)
	m[unix.SYS_PERSONALITY] = onlyIf(offArg0, retPerm, 0, samePersonality, noRandomAddresses)
	switch {
	case s.Mediated || s.Confined:
		mediatedRules(m, s.Debug)
	case s.Alone != nil && !s.Containers: // in a namespace of their own they have other numbers
		aloneRules(m, *s.Alone)
	}
	if s.Confined {
		confinedRules(m)
	}
	if s.Sharing != NotShared {
		sharedRules(m, s)
	}
	return m
}

// returns is what a filter returns for calls with the verdict. What the condition of others
// is, is in the code.
func (v Verdict) returns() uint32 {
	switch v {
	case Denied:
		return retPerm
	case Absent:
		return retNosys
	default:
		return retAllow
	}
}

// number is a system call of this architecture.
type number struct {
	name string
	nr   uint32
}

// numberOf returns the number of a call that this architecture has.
func numberOf(name string) (nr uint32, ok bool) {
	i, ok := slices.BinarySearchFunc(numbers[:], name, func(n number, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return 0, false
	}
	return numbers[i].nr, true
}

// Supported tells whether there are filters for this processor.
const Supported = auditArch != 0

// Jail is the filter of a jail.
func Jail(s Settings) []unix.SockFilter {
	other := rule{ret: retNosys}.program()
	switch {
	case s.Mediated: // the listener refuses them, and counts
		other = rule{ret: retNotify | uint32(unix.ENOSYS)}.program()
	case s.Programs32bit && Programs32bit:
		other = i386(slices.Concat([]unix.SockFilter{{Code: bpfLoad, K: offNr}}, searchTree(ranges(rules32bit(s)))))
	}
	return append(enter(other), searchTree(ranges(rules(s)))...)
}

// enter begins a program: what is of another architecture goes the other way, and what is not of this one's usual calls (x32) is refused. Then the call's number is in the
// accumulator.
func enter(other []unix.SockFilter) []unix.SockFilter {
	p := []unix.SockFilter{
		{Code: bpfLoad, K: offArch},
		{Code: bpfJeq, K: auditArch, Jf: 1},
		{Code: bpfJump, K: uint32(len(other))},
	}
	p = append(append(p, other...), unix.SockFilter{Code: bpfLoad, K: offNr})
	if x32Bit != 0 {
		p = append(p, unix.SockFilter{Code: bpfJge, K: x32Bit, Jf: 1}, unix.SockFilter{Code: bpfRet, K: retNosys})
	}
	return p
}

// i386 is a program, for what is of another architecture than this one, with the architecture in the accumulator, that goes on with code for i386.
func i386(code []unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{{Code: bpfJeq, K: auditArch32, Jt: 1}, {Code: bpfRet, K: retNosys}}, code...)
}

// Notify is a filter that sends some calls to the listener and allows all others.
func Notify(calls ...uint32) []unix.SockFilter {
	p := []unix.SockFilter{{Code: bpfLoad, K: offNr}}
	for _, nr := range calls {
		p = append(p, unix.SockFilter{Code: bpfJeq, K: nr, Jf: 1}, unix.SockFilter{Code: bpfRet, K: retNotify})
	}
	return append(p, unix.SockFilter{Code: bpfRet, K: retAllow})
}

// compile builds a program: architecture, other ABIs, then a binary search for the
// call's number. Calls that are allowed whatever their arguments do not even run
// it: the kernel knows them from when the filter was loaded (Linux 5.11).
func compile(m map[uint32]rule) []unix.SockFilter {
	return append(enter(rule{ret: retNosys}.program()), searchTree(ranges(m))...)
}

// numbers of system calls, from the first on, that have the same program.
type callRange struct {
	first uint32
	code  []unix.SockFilter
}

// ranges covers all numbers, in order. Those without a rule are calls that nobody has looked
// at, such as a newer kernel's.
func ranges(m map[uint32]rule) []callRange {
	unknown := rule{ret: retNosys}.program()
	out := []callRange{{0, unknown}}
	add := func(first uint32, code []unix.SockFilter) {
		last := &out[len(out)-1]
		switch {
		case last.first == first:
			last.code = code
		case !slices.Equal(last.code, code):
			out = append(out, callRange{first, code})
		}
	}
	for _, nr := range slices.Sorted(maps.Keys(m)) {
		add(nr, m[nr].program())
		if _, ok := m[nr+1]; !ok {
			add(nr+1, unknown)
		}
	}
	return out
}

// searchTree is a program that finds the range of the number in the accumulator
// and goes on with its code.
func searchTree(rs []callRange) []unix.SockFilter {
	if len(rs) == 1 {
		return rs[0].code
	}
	mid := len(rs) / 2
	low, high := searchTree(rs[:mid]), searchTree(rs[mid:])
	var p []unix.SockFilter
	if skip := len(low); skip <= 255 {
		p = append(p, unix.SockFilter{Code: bpfJge, K: rs[mid].first, Jt: uint8(skip)})
	} else { // a conditional jump reaches no further
		p = append(p, unix.SockFilter{Code: bpfJge, K: rs[mid].first, Jf: 1}, unix.SockFilter{Code: bpfJump, K: uint32(skip)})
	}
	return append(append(p, low...), high...)
}
