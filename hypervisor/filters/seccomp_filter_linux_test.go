package filters

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// interpret runs a filter as the kernel does.
func interpret(t *testing.T, p []unix.SockFilter, data map[uint32]uint32) uint32 {
	t.Helper()
	a := uint32(0)
	for pc := 0; ; pc++ {
		if pc >= len(p) {
			t.Fatal("it runs out of the program")
		}
		in := p[pc]
		branch := func(taken bool) {
			if taken {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case bpfLoad:
			a = data[in.K]
		case bpfAnd:
			a &= in.K
		case bpfJeq:
			branch(a == in.K)
		case bpfJge:
			branch(a >= in.K)
		case bpfJset:
			branch(a&in.K != 0)
		case bpfJump:
			pc += int(in.K)
		case bpfRet:
			return in.K
		default:
			t.Fatalf("instruction %#x", in.Code)
		}
	}
}

// TestFilter: the search finds what the rules say of each number.
func TestSeccompFilter(t *testing.T) {
	for _, s := range []Settings{{}, {Mediated: true}, {Confined: true}, {Containers: true}, {Alone: &IDs{1000, 1000}},
		{Mediated: true, Sharing: SharedConnections}, {Mediated: true, Sharing: SharedDatagrams}, {Confined: true, Sharing: SharedKept}} {
		m := rules(s)
		p := compile(m)
		if len(p) > 4096 {
			t.Errorf("%d instructions", len(p))
		}
		for nr := range uint32(700) {
			r, ok := m[nr]
			if !ok {
				r = rule{ret: retNosys}
			}
			data := map[uint32]uint32{offArch: auditArch, offNr: nr}
			if got := interpret(t, p, data); r.off == 0 && got != r.ret {
				t.Errorf("call %d: %#x, want %#x", nr, got, r.ret)
			} else if want := r.otherwise(); r.off != 0 && got != want && !slices.Contains(r.tests, ruleTest{code: bpfJeq}) {
				t.Errorf("call %d with zeros: %#x, want %#x", nr, got, want)
			}
			for _, test := range r.tests {
				if r.then != nil || test.then != nil {
					continue // it depends on more: TestD10Alone, TestSharedSockets
				}
				data := map[uint32]uint32{offArch: auditArch, offNr: nr, test.argument(r): test.k}
				if got := interpret(t, p, data); got != test.returns(r) {
					t.Errorf("call %d with argument %#x: %#x, want %#x", nr, test.k, got, test.returns(r))
				}
			}
		}
		for _, data := range []map[uint32]uint32{{offArch: 3}, {offArch: auditArch + 1}} {
			if got := interpret(t, p, data); got != retNosys {
				t.Errorf("another architecture: %#x", got)
			}
		}
		if x32 := uint32(x32Bit); x32 != 0 && interpret(t, p, map[uint32]uint32{offArch: auditArch, offNr: x32 | 1}) != retNosys {
			t.Error("x32")
		}
	}
}

// TestDeniedStaysDenied: what the mediated bridge adds takes nothing away. A call that the listener refuses (fsbridge/mediate tests that it
// does) is denied.
func TestDeniedStaysDenied(t *testing.T) {
	both := rules(Settings{Mediated: true})
	for nr, r := range rules(Settings{}) {
		got := both[nr]
		if r.off == 0 && r.ret == retAllow {
			continue
		}
		for _, test := range r.tests {
			if !slices.Contains(got.tests, test) {
				t.Errorf("call %d: %v is gone", nr, test)
			}
		}
		if got.off != r.off || got.ret != r.ret && (nr != unix.SYS_PTRACE || got.ret != retTold || r.ret != retPerm) {
			t.Errorf("call %d: %v, was %v", nr, got, r)
		}
	}
	if got := rules(Settings{Mediated: true, Debug: true})[unix.SYS_PTRACE]; got.ret != retAllow {
		t.Errorf("ptrace where it is allowed: %v", got)
	}
}

// TestW13Priorities: the first process keeps its priority and its processors, whether it is named by its number, its group or its user.
func TestW13Priorities(t *testing.T) {
	p := Jail(Settings{})
	const ioprioProcess = 1
	for _, c := range []struct{ nr, which, who, want uint32 }{
		{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, retAllow},
		{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 7, retAllow},
		{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 1, retPerm},
		{unix.SYS_SETPRIORITY, unix.PRIO_PGRP, 0, retAllow},
		{unix.SYS_SETPRIORITY, unix.PRIO_PGRP, 1, retPerm},
		{unix.SYS_SETPRIORITY, unix.PRIO_USER, 0, retPerm},
		{unix.SYS_SETPRIORITY, unix.PRIO_USER, 1000, retPerm},
		{unix.SYS_IOPRIO_SET, ioprioProcess, 0, retAllow},
		{unix.SYS_IOPRIO_SET, ioprioProcess, 1, retPerm},
		{unix.SYS_IOPRIO_SET, ioprioUser, 1000, retPerm},
		{unix.SYS_SCHED_SETAFFINITY, 0, 8, retAllow},
		{unix.SYS_SCHED_SETAFFINITY, 9, 1, retAllow},
		{unix.SYS_SCHED_SETAFFINITY, 1, 8, retPerm},
		{unix.SYS_SCHED_SETATTR, 1, 8, retPerm},
	} {
		if got := interpret(t, p, map[uint32]uint32{offArch: auditArch, offNr: c.nr, offArg0: c.which, offArg1: c.who}); got != c.want {
			t.Errorf("call %d of %d %d: %#x, want %#x", c.nr, c.which, c.who, got, c.want)
		}
	}
}

// TestD13Drivers: a device's requests are allowed where its driver is named, and nowhere else. What is refused stays so, whoever is named, and so do a terminal's line disciplines.
func TestD13Drivers(t *testing.T) {
	ask := func(drivers []string, request uint32) uint32 {
		return interpret(t, Jail(Settings{Drivers: drivers}), map[uint32]uint32{offArch: auditArch, offNr: unix.SYS_IOCTL, offArg1: request})
	}
	for driver, request := range map[string]uint32{
		"drm": 0xc0406400, "nvidia": 0xc020462a, "nvidia-uvm": 0x30000001, "kvm": 0xae00, "tun": unix.TUNSETIFF, "fuse": 0x8004e500, "usb_device": 0x80045510,
	} {
		for names, want := range map[string]uint32{driver: retAllow, "another": retNotty} {
			if got := ask([]string{names}, request); got != want {
				t.Errorf("%#x of %s, where %s is named: %#x, want %#x", request, driver, names, got, want)
			}
		}
	}
	all := Drivers()
	for _, q := range refusedRequests {
		if got := ask(all, q.Number); got != retPerm {
			t.Errorf("%s, where all drivers are named: %#x", q.Name, got)
		}
	}
	const lineDiscipline = 0x5423
	if got := ask(all, lineDiscipline); got != retNotty {
		t.Errorf("TIOCSETD, where all drivers are named: %#x", got)
	}
}

// TestConfinedFilter: without namespaces, requests of ioctl, sockets and limits are those that
// are known to be harmless.
func TestConfinedFilter(t *testing.T) {
	p := Confined(false, NotShared)
	const refused = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)
	const told = retNotify | uint32(unix.EAFNOSUPPORT) // the listener refuses it
	for _, c := range []struct{ nr, off, arg, want uint32 }{
		{unix.SYS_IOCTL, offArg1, unix.TCGETS, retAllow},
		{unix.SYS_IOCTL, offArg1, unix.TCGETS2, retAllow},
		{unix.SYS_IOCTL, offArg1, 0x5451, retAllow}, // FIOCLEX
		{unix.SYS_IOCTL, offArg1, unix.FICLONE, retAllow},
		{unix.SYS_IOCTL, offArg1, unix.TIOCSTI, retPerm},
		{unix.SYS_IOCTL, offArg1, unix.FS_IOC_SETFLAGS, retPerm},
		{unix.SYS_IOCTL, offArg1, 0x5000940e, refused}, // BTRFS_IOC_SUBVOL_CREATE
		{unix.SYS_IOCTL, offArg1, 0x40047211, refused}, // FAT_IOCTL_SET_ATTRIBUTES
		{unix.SYS_IOCTL, offArg1, 0x6609, refused},     // EXT4_IOC_MIGRATE
		{unix.SYS_SOCKET, offArg0, unix.AF_UNIX, retNoFam},
		{unix.SYS_SOCKET, offArg0, unix.AF_INET, told},
		{unix.SYS_SOCKET, offArg0, unix.AF_INET6, told},
		{unix.SYS_SOCKET, offArg0, unix.AF_NETLINK, retAllow},
		{unix.SYS_SOCKETPAIR, offArg1, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, retAllow},
		{unix.SYS_SOCKETPAIR, offArg1, unix.SOCK_DGRAM, retNoFam},
		{unix.SYS_SOCKETPAIR, offArg1, unix.SOCK_RAW | unix.SOCK_CLOEXEC, retNoFam}, // of unix sockets, it is a datagram's
		{unix.SYS_PERSONALITY, offArg0, 0x0008, retPerm},                            // PER_LINUX32
		{unix.SYS_PERSONALITY, offArg0, noRandomAddresses | 0x0400000, retPerm},     // READ_IMPLIES_EXEC
		{unix.SYS_PERSONALITY, offArg0, noRandomAddresses, retAllow},
		{unix.SYS_PERSONALITY, offArg0, samePersonality, retAllow},
		{unix.SYS_PERSONALITY, offArg0, 0, retAllow},
		{unix.SYS_PRLIMIT64, offArg0, 0, retAllow},
		{unix.SYS_PRLIMIT64, offArg0, 1, retPerm},
		{unix.SYS_PRCTL, offArg0, unix.PR_SET_DUMPABLE, retDone},
		{unix.SYS_PRCTL, offArg0, unix.PR_SET_NAME, retAllow},
	} {
		if got := interpret(t, p, map[uint32]uint32{offArch: auditArch, offNr: c.nr, c.off: c.arg}); got != c.want {
			t.Errorf("call %d with argument %#x: %#x, want %#x", c.nr, c.arg, got, c.want)
		}
	}
}

// TestConfinedKeepsDenied: without namespaces, nothing is allowed that a mediated jail denies.
func TestConfinedKeepsDenied(t *testing.T) {
	m := rules(Settings{Confined: true})
	for nr, r := range rules(Settings{Mediated: true}) {
		got := m[nr]
		if r.ret == retAllow {
			continue
		}
		if r.off == 0 && (got.off != 0 || got.ret != r.ret) {
			t.Errorf("call %d: %v, was %v", nr, got, r)
		}
		for _, test := range r.tests {
			if test.returns(r) == retAllow {
				continue
			}
			p := map[uint32]uint32{offArch: auditArch, offNr: nr, test.argument(r): test.k}
			if interpret(t, compile(m), p) == retAllow {
				t.Errorf("call %d with argument %#x is allowed", nr, test.k)
			}
		}
	}
}

// TestW4Ioctls: whatever the settings are, a request that is not in the list fails, whatever its high bits are, and no row of the list changes a file system, types into a
// terminal or reaches a machine's hardware.
func TestW4Ioctls(t *testing.T) {
	listed := map[uint32]Request{}
	for q := range Requests() {
		if _, twice := listed[q.Number]; twice || q.Name == "" || q.Why == "" {
			t.Errorf("%+v is there twice, or says nothing", q)
		}
		listed[q.Number] = q
	}
	for _, q := range refusedRequests {
		if _, both := listed[q.Number]; both || q.Name == "" || q.Why == "" {
			t.Errorf("%+v is allowed, too, or says nothing", q)
		}
	}
	others := []uint32{ // of what a descriptor inside may know
		0, 1, 0x4b33, 0x5423, 0x5437, 0x5457, 0x6609, 0x6610, 0x00000301, 0x127d, 0x1277, 0x4c00, 0x4c82, 0x5000940e, 0x50009403, 0x5000940f, 0x40047211, 0xc0045877, 0xc0045878,
		0xae00, 0xae01, 0x2000ae80, 0x400454ca, 0x400454cb, 0xc0106400, 0xc0045519, 0x2400, 0xaa3f, 0xc018aa3f, 0x00007001, 0x40086610, 0x40305828, 0x4030582a, 0xf501, 0xf512, 0x5822, 0x8914 | 1<<31,
		0xc1105868, 0xc0c89420, 0x894d, 0x89a0, 0x89f0, 0x8b1b, 0x89b0,
	}
	for _, s := range []Settings{{}, {Mediated: true}, {Confined: true}, {Containers: true}, {Debug: true}} {
		p := compile(rules(s))
		returns := func(request uint32) uint32 {
			return interpret(t, p, map[uint32]uint32{offArch: auditArch, offNr: unix.SYS_IOCTL, offArg1: request, offArg1 + 4: 0x7fffffff})
		}
		for n, q := range listed {
			want := uint32(retAllow)
			if q.Containers && !s.Containers {
				want = retNotty
			}
			if got := returns(n); got != want {
				t.Errorf("%+v: %s: %#x, want %#x", s, q.Name, got, want)
			}
			// A bit more or less is another request.
			for bit := range 32 {
				if m := n ^ 1<<bit; listed[m].Name == "" && returns(m) == retAllow {
					t.Errorf("%+v: %#x is allowed", s, m)
				}
			}
		}
		for _, q := range refusedRequests {
			if got := returns(q.Number); got != retPerm {
				t.Errorf("%+v: %s: %#x", s, q.Name, got)
			}
		}
		for _, n := range others {
			if got := returns(n); got != retNotty {
				t.Errorf("%+v: request %#x: %#x", s, n, got)
			}
		}
	}
}

// TestD10Alone: who is alone in a namespace is told, as outside, that he may give files to nobody else.
func TestD10Alone(t *testing.T) {
	const uid, gid, same = 1000, 1001, unchanged
	calls := map[uint32][2]uint32{unix.SYS_FCHOWN: {offArg1, offArg2}, unix.SYS_FCHOWNAT: {offArg2, offArg3}}
	for _, name := range []string{"chown", "lchown"} {
		if nr, ok := numberOf(name); ok {
			calls[nr] = [2]uint32{offArg1, offArg2}
		}
	}
	alone := Settings{Alone: &IDs{uid, gid}}
	for nr, args := range calls {
		for _, c := range []struct {
			uid, gid uint32
			want     uint32
		}{
			{uid, gid, retAllow}, {uid, same, retAllow}, {same, gid, retAllow}, {same, same, retAllow},
			{0, 0, retPerm}, {0, same, retPerm}, {same, 0, retPerm}, {uid, 0, retPerm}, {0, gid, retPerm}, {gid, uid, retPerm},
		} {
			data := map[uint32]uint32{offArch: auditArch, offNr: nr, args[0]: c.uid, args[1]: c.gid}
			if got := interpret(t, Jail(alone), data); got != c.want {
				t.Errorf("call %d with %d:%d: %#x, want %#x", nr, c.uid, c.gid, got, c.want)
			}
			for _, s := range []Settings{{}, {Alone: alone.Alone, Containers: true}} {
				if got := interpret(t, Jail(s), data); got != retAllow {
					t.Errorf("call %d with %d:%d: %#x with %+v", nr, c.uid, c.gid, got, s)
				}
			}
		}
	}
}
