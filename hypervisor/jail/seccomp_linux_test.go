package jail

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
func TestFilter(t *testing.T) {
	for _, mediated := range []bool{false, true} {
		m := rules(false, mediated)
		p := filter(false, mediated)
		if len(p) > 4096 {
			t.Errorf("%d instructions", len(p))
		}
		for nr := range uint32(700) {
			r, ok := m[nr]
			if !ok {
				r = rule{ret: retAllow}
			}
			data := map[uint32]uint32{offArch: auditArch, offNr: nr}
			if got := interpret(t, p, data); r.off == 0 && got != r.ret {
				t.Errorf("call %d: %#x, want %#x", nr, got, r.ret)
			} else if r.off != 0 && got != retAllow {
				t.Errorf("call %d with zeros: %#x", nr, got)
			}
			for _, test := range r.tests {
				data[r.off] = test.k
				if got := interpret(t, p, data); got != r.ret {
					t.Errorf("call %d with argument %#x: %#x, want %#x", nr, test.k, got, r.ret)
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

// TestDeniedStaysDenied: what the mediated bridge adds takes nothing away.
func TestDeniedStaysDenied(t *testing.T) {
	both := rules(false, true)
	for nr, r := range rules(false, false) {
		got := both[nr]
		for _, test := range r.tests {
			if !slices.Contains(got.tests, test) {
				t.Errorf("call %d: %v is gone", nr, test)
			}
		}
		if got.off != r.off || got.ret != r.ret {
			t.Errorf("call %d: %v, was %v", nr, got, r)
		}
	}
}
