//go:build linux

package mediate

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What comes here only to be refused and counted is never left to the kernel, which would perform it.
func TestRefused(t *testing.T) {
	s := New(Options{})
	for nr, want := range map[int32]syscall.Errno{unix.SYS_PTRACE: unix.EPERM, unix.SYS_SOCKET: unix.EAFNOSUPPORT, unix.SYS_SECCOMP: unix.EBUSY} {
		c := &call{s: s}
		c.n.Data.NR = nr
		if a := c.perform(); a.native || a.errno != want {
			t.Errorf("call %d: %+v, want %v", nr, a, want)
		}
	}
	if f := s.Figures(); f.Traced != 1 || f.Unwired != 1 || f.Listening != 1 {
		t.Errorf("counted: %+v", f)
	}
}
