//go:build linux

package mediate

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestIsThere: signal 0 to a process outside that the guest shall know is answered, if nobody inside has its number. Other signals and numbers are the kernel's.
func TestIsThere(t *testing.T) {
	root, err := os.OpenFile(t.TempDir(), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.MkdirAll(filepath.Join(root.Name(), "proc", "78"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Outside: func(pid int) bool { return pid == 77 || pid == 78 || pid == 1 }})
	s.guest.Root = root
	for _, k := range []struct {
		pid, signal int
		native      bool
	}{{77, 0, false}, {77, 9, true}, {78, 0, true}, {79, 0, true}, {1, 0, true}, {-77, 0, true}, {0, 0, true}} {
		c := &call{s: s}
		c.n.Data.Arch, c.n.Data.NR, c.n.Data.Args[0], c.n.Data.Args[1] = nativeArch, unix.SYS_KILL, uint64(k.pid), uint64(k.signal)
		if a := c.perform(); a.native != k.native || a.errno != 0 {
			t.Errorf("kill(%d, %d): %+v", k.pid, k.signal, a)
		}
	}
}

// What comes here only to be refused and counted is never left to the kernel, which would perform it.
func TestRefused(t *testing.T) {
	s := New(Options{})
	for nr, want := range map[int32]syscall.Errno{unix.SYS_PTRACE: unix.EPERM, unix.SYS_SOCKET: unix.EAFNOSUPPORT, unix.SYS_SECCOMP: unix.EBUSY} {
		c := &call{s: s}
		c.n.Data.NR, c.n.Data.Arch = nr, nativeArch
		if a := c.perform(); a.native || a.errno != want {
			t.Errorf("call %d: %+v, want %v", nr, a, want)
		}
	}
	c := &call{s: s}
	c.n.Data.NR, c.n.Data.Arch = unix.SYS_OPENAT, unix.AUDIT_ARCH_I386
	if a := c.perform(); a.native || a.errno != unix.ENOSYS {
		t.Errorf("a call of 32 bits: %+v", a)
	}
	if f := s.Figures(); f.Foreign != 1 || f.Traced != 1 || f.Unwired != 1 || f.Listening != 1 {
		t.Errorf("counted: %+v", f)
	}
}
