package filters

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// numbers32Current: the numbers of i386 are those of the library, and each of its calls is judged: by the table, or as what it is like, or by name.
func numbers32Current(t *testing.T) {
	t.Helper()
	m := numbersOf(t, "386")
	var b bytes.Buffer
	fmt.Fprint(&b, "// Made from golang.org/x/sys by: go test ./hypervisor/filters -run Numbers -update\n\npackage filters\n\n"+
		"// numbers32 are the system calls of programs of 32 bits (i386), by name.\nvar numbers32 = [...]number{\n")
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "\t{%q, %d},\n", name, m[name])
		_, listed := familyOf(name)
		judged := []bool{listed && !slices.Contains(owned, name), alike[name] != "", slices.Contains(owned, name), slices.Contains(absent, name), name == "socketcall"}
		if n := len(slices.DeleteFunc(judged, func(is bool) bool { return !is })); n != 1 {
			t.Errorf("%s (i386) is judged %d times: find out what it reaches, and put it into seccomp_32bit.go", name, n)
		}
	}
	b.WriteString("}\n")
	current(t, "seccomp_numbers32_linux_amd64.go", b.String())
	for name, as := range alike {
		if _, listed := familyOf(as); !listed || m[name] == 0 {
			t.Errorf("%s=%s: there is no such call", name, as)
		}
	}
}

// Test32bit: programs of 32 bits get what those of 64 bits do, by numbers of their own; without the setting, and beside the mediated bridge, nothing.
func Test32bit(t *testing.T) {
	if !Programs32bit {
		return // this processor has none
	}
	alone := Settings{Programs32bit: true, Alone: &IDs{1000, 1000}}
	plain, debug, containers := Jail(Settings{Programs32bit: true}), Jail(Settings{Programs32bit: true, Debug: true}), Jail(Settings{Programs32bit: true, Containers: true})
	without, mediated := Jail(Settings{}), Jail(Settings{Mediated: true, Programs32bit: true})
	for _, c := range []struct {
		name    string
		program []unix.SockFilter
		nr      uint32
		args    [4]uint32
		want    uint32
	}{
		{"exit", plain, 1, [4]uint32{}, retAllow}, {"open", plain, 5, [4]uint32{}, retAllow}, {"mmap2", plain, 192, [4]uint32{}, retAllow}, {"set_thread_area", plain, 243, [4]uint32{}, retAllow},
		{"ipc", plain, 117, [4]uint32{21}, retAllow}, {"futex_time64", plain, 422, [4]uint32{}, retAllow}, {"getuid32", plain, 199, [4]uint32{}, retAllow},
		{"ptrace", plain, 26, [4]uint32{}, retPerm}, {"ptrace with --debug", debug, 26, [4]uint32{}, retAllow},
		{"mount", plain, 21, [4]uint32{}, retPerm}, {"umount", plain, 22, [4]uint32{}, retPerm}, {"umount2", plain, 52, [4]uint32{}, retPerm}, {"mount with --containers", containers, 21, [4]uint32{}, retAllow},
		{"umount with --containers", containers, 22, [4]uint32{}, retAllow},
		{"chroot", plain, 61, [4]uint32{}, retPerm}, {"setns", plain, 346, [4]uint32{}, retPerm},
		{"clone", plain, 120, [4]uint32{unix.CLONE_VM}, retAllow}, {"clone of a namespace", plain, 120, [4]uint32{unix.CLONE_NEWUSER | unix.CLONE_VM}, retPerm}, {"clone3", plain, 435, [4]uint32{}, retNosys},
		{"unshare", plain, 310, [4]uint32{unix.CLONE_NEWNS}, retPerm}, {"unshare of the time", plain, 310, [4]uint32{newTime}, retPerm}, {"unshare of files", plain, 310, [4]uint32{unix.CLONE_FILES}, retAllow},
		{"personality", plain, 136, [4]uint32{0x0400000}, retPerm}, {"personality to ask", plain, 136, [4]uint32{samePersonality}, retAllow},
		{"add_key", plain, 286, [4]uint32{}, retPerm}, {"request_key", plain, 287, [4]uint32{}, retPerm}, {"keyctl", plain, 288, [4]uint32{}, retPerm}, {"bpf", plain, 357, [4]uint32{}, retPerm},
		{"io_uring_setup", plain, 425, [4]uint32{}, retPerm}, {"io_uring_enter", plain, 426, [4]uint32{}, retPerm}, {"userfaultfd", plain, 374, [4]uint32{}, retPerm},
		{"perf_event_open", plain, 336, [4]uint32{}, retPerm}, {"open_by_handle_at", plain, 342, [4]uint32{}, retPerm}, {"kexec_load", plain, 283, [4]uint32{}, retPerm},
		{"init_module", plain, 128, [4]uint32{}, retPerm}, {"finit_module", plain, 350, [4]uint32{}, retPerm},
		{"modify_ldt", plain, 123, [4]uint32{}, retPerm}, {"iopl", plain, 110, [4]uint32{}, retPerm}, {"ioperm", plain, 101, [4]uint32{}, retPerm}, {"vm86old", plain, 113, [4]uint32{}, retNosys},
		{"vm86", plain, 166, [4]uint32{}, retNosys}, {"uselib", plain, 86, [4]uint32{}, retNosys}, {"process_vm_writev", plain, 348, [4]uint32{}, retPerm}, {"move_pages", plain, 317, [4]uint32{}, retPerm},
		{"stime", plain, 25, [4]uint32{}, retPerm}, {"settimeofday", plain, 79, [4]uint32{}, retPerm}, {"clock_settime", plain, 264, [4]uint32{}, retPerm}, {"clock_settime64", plain, 404, [4]uint32{}, retPerm},
		{"socket", plain, 359, [4]uint32{unix.AF_INET}, retAllow}, {"socket to a machine's host", plain, 359, [4]uint32{unix.AF_VSOCK}, retNoFam},
		{"socketcall for a socket", plain, 102, [4]uint32{1}, retNoFam}, {"socketcall for a connection", plain, 102, [4]uint32{3}, retAllow},
		{"ioctl", plain, 54, [4]uint32{1: 0x5401}, retAllow}, {"ioctl that types", plain, 54, [4]uint32{1: 0x5412}, retPerm}, {"ioctl that changes a file", plain, 54, [4]uint32{1: 0x40046602}, retPerm},
		{"ioctl of nobody's", plain, 54, [4]uint32{1: 0xae00}, retNotty},
		{"prlimit64 of the first process", plain, 340, [4]uint32{1}, retPerm}, {"setpriority of the first process", plain, 97, [4]uint32{0, 1}, retPerm}, {"setpriority of a user", plain, 97, [4]uint32{unix.PRIO_USER}, retPerm},
		{"sched_setaffinity of the first process", plain, 241, [4]uint32{1}, retPerm},
		{"chown32 to somebody else", Jail(alone), 212, [4]uint32{1: 5, 2: 1000}, retPerm}, {"chown32 to the same", Jail(alone), 212, [4]uint32{1: 1000, 2: unchanged}, retAllow},
		{"a number of nobody's", plain, 5000, [4]uint32{}, retNosys}, {"a number of 64 bits alone", plain, 223, [4]uint32{}, retNosys},
		{"exit without the setting", without, 1, [4]uint32{}, retNosys}, {"exit beside the mediated bridge", mediated, 1, [4]uint32{}, retNotify | uint32(unix.ENOSYS)},
	} {
		data := map[uint32]uint32{offArch: auditArch32, offNr: c.nr, offArg0: c.args[0], offArg1: c.args[1], offArg2: c.args[2], offArg3: c.args[3]}
		if got := interpret(t, c.program, data); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	for nr := range uint32(700) { // 64 bits are judged as without it
		data := map[uint32]uint32{offArch: auditArch, offNr: nr}
		if a, b := interpret(t, plain, data), interpret(t, without, data); a != b {
			t.Errorf("call %d of 64 bits: %#x, without %#x", nr, a, b)
		}
	}
	for _, p := range [][]unix.SockFilter{plain, Supervisor(false, true)} {
		if len(p) > 4096 {
			t.Errorf("%d instructions", len(p))
		}
		for _, data := range []map[uint32]uint32{{offArch: 0x40000028, offNr: 1}, {offArch: 3}, {offArch: auditArch, offNr: x32Bit | 1}} {
			if got := interpret(t, p, data); got != retNosys {
				t.Errorf("another architecture, or x32: %#x", got)
			}
		}
	}
}

// TestSupervisor32bit: what the supervisor may not call, nobody beneath its filter may call as a program of 32 bits, and what a guest may, it may there.
func TestSupervisor32bit(t *testing.T) {
	for _, debug := range []bool{false, true} {
		p, guest := Supervisor(debug, true), rules32bit(Settings{Programs32bit: true, Debug: debug})
		for _, n := range numbers32 {
			got := interpret(t, p, map[uint32]uint32{offArch: auditArch32, offNr: n.nr})
			if r := guest[n.nr]; got == retPerm && (r.off != 0 || r.ret != retPerm) {
				t.Errorf("%s is not denied inside", n.name)
			}
			if denied := slices.Contains(SupervisorDenied(debug), n.name); denied != (got == retPerm) && alike[n.name] == "" {
				t.Errorf("%s: %#x", n.name, got)
			}
		}
		if got := interpret(t, Supervisor(debug, false), map[uint32]uint32{offArch: auditArch32, offNr: 1}); got != retNosys {
			t.Errorf("without the setting: %#x", got)
		}
	}
}
