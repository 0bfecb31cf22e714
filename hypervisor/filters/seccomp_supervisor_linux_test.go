package filters

import (
	"slices"
	"testing"
)

// TestSupervisor: the supervisor's filter denies what is in its list and allows all else; and what it denies is denied by each filter of a guest, with the same error, so that it changes nothing inside.
func TestSupervisor(t *testing.T) {
	for _, debug := range []bool{false, true} {
		denied := SupervisorDenied(debug)
		p := Supervisor(debug, false)
		for _, n := range numbers {
			got := interpret(t, p, map[uint32]uint32{offArch: auditArch, offNr: n.nr})
			want := uint32(retAllow)
			if slices.Contains(denied, n.name) {
				want = retPerm
			}
			if got != want {
				t.Errorf("%s: %#x, want %#x", n.name, got, want)
			}
			for _, s := range []Settings{{}, {Mediated: true}, {Confined: true}, {Containers: true}} {
				s.Debug = debug
				if r := rules(s)[n.nr]; want == retPerm && (r.off != 0 || r.ret != retPerm && r.ret != retTold) { // the listener gives the same error
					t.Errorf("%s is not denied inside (%+v)", n.name, s)
				}
			}
		}
		if got := interpret(t, p, map[uint32]uint32{offArch: auditArch, offNr: 5000}); got != retAllow {
			t.Errorf("a number that nobody knows: %#x", got)
		}
		if got := interpret(t, p, map[uint32]uint32{offArch: auditArch + 1, offNr: 1}); got != retNosys {
			t.Errorf("another architecture: %#x", got)
		}
	}
	for _, name := range []string{"bpf", "finit_module", "kexec_load", "io_uring_setup", "userfaultfd", "keyctl", "perf_event_open", "ptrace", "reboot"} {
		if !slices.Contains(SupervisorDenied(false), name) {
			t.Errorf("%s is allowed", name)
		}
	}
}
