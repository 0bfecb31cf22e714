//go:build linux

package fuse

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// holder holds operations on names that it is told, until they are released.
type holder struct {
	hold    map[string]bool
	arrived chan uint32 // pids
	release chan error
	// dies: an interrupt means death to it. The real Interceptor looks first.
	dies        bool
	interrupted chan struct{}
}

func newHolder(names ...string) *holder {
	h := &holder{
		hold: map[string]bool{}, arrived: make(chan uint32, 10000),
		release: make(chan error, 10000), interrupted: make(chan struct{}, 10000),
	}
	for _, n := range names {
		h.hold[n] = true
	}
	return h
}

func (h *holder) gate(op *fsbridge.Op) error {
	if !h.hold[op.Name] {
		return nil
	}
	h.arrived <- op.PID
	cancel := op.Cancel
	for {
		select {
		case err := <-h.release:
			return err
		case <-cancel:
			h.interrupted <- struct{}{}
			if h.dies {
				return fsbridge.ErrInterrupted
			}
			cancel = nil
		}
	}
}

// within fails the test if f takes longer than is any excuse.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s: still waiting after two minutes", what)
	}
}

// TestHeldElsewhere: while an operation is held, other directories, open files
// and the host go on, invalidation does not wait, and the answer lets it go.
func TestHeldElsewhere(t *testing.T) {
	h := newHolder("victim")
	m := mount(t, func(o *vfs.Options) { o.Hooks = &recorder{gate: h.gate} })
	p := func(name string) string { return filepath.Join(m.mnt, name) }
	check(t, os.Mkdir(p("held"), 0o755))
	check(t, os.Mkdir(p("free"), 0o755))
	check(t, os.WriteFile(filepath.Join(m.host, "held/victim"), []byte("x"), 0o644))
	result := make(chan error, 1)
	go func() { result <- os.Remove(p("held/victim")) }()
	<-h.arrived
	within(t, "work beside a held operation", func() {
		check(t, os.WriteFile(p("free/a"), []byte("x"), 0o644))
		check(t, os.Rename(p("free/a"), p("free/b")))
		_, err := os.ReadDir(p("free"))
		check(t, err)
		check(t, os.Remove(p("free/b")))
		_, err = os.ReadFile(filepath.Join(m.host, "held/victim"))
		check(t, err)
		if n := m.InFlight(); n < 1 {
			t.Errorf("in flight: %d, want the held one", n)
		}
		st, err := os.Stat(filepath.Join(m.host, "held"))
		check(t, err)
		dir := st.Sys().(*syscall.Stat_t)
		var change fsbridge.Change
		change.Dir.Dev, change.Dir.Ino, change.Name = dir.Dev, dir.Ino, "victim"
		check(t, m.Invalidate(fsbridge.Changes{List: []fsbridge.Change{change}}))
	})
	h.release <- fsbridge.ErrDenied
	if err := <-result; vfs.Errno(err) != syscall.EPERM {
		t.Errorf("denied: %v", err)
	}
	if _, err := os.Stat(p("held/victim")); err != nil {
		t.Errorf("the denied removal happened: %v", err)
	}
}

// TestHeldKill: a process that is killed while it is held is let go as soon as
// the Interceptor says so, and its operation does not happen.
func TestHeldKill(t *testing.T) {
	h := newHolder("victim")
	h.dies = true
	m := mount(t, func(o *vfs.Options) { o.Hooks = &recorder{gate: h.gate} })
	check(t, os.WriteFile(filepath.Join(m.host, "victim"), []byte("x"), 0o644))
	cmd := exec.Command("rm", "-f", filepath.Join(m.mnt, "victim"))
	check(t, cmd.Start())
	if pid := <-h.arrived; pid != uint32(cmd.Process.Pid) {
		t.Errorf("the op says pid %d, rm is %d", pid, cmd.Process.Pid)
	}
	check(t, cmd.Process.Signal(unix.SIGKILL))
	within(t, "the killed process's end", func() { _ = cmd.Wait() })
	if _, err := os.Stat(filepath.Join(m.host, "victim")); err != nil {
		t.Errorf("the killed removal happened: %v", err)
	}
}

// TestHeldSignal: a signal with a handler interrupts the request, which the
// Interceptor is told; what it does not take for death goes on, and the
// program sees no EINTR.
func TestHeldSignal(t *testing.T) {
	h := newHolder("victim")
	m := mount(t, func(o *vfs.Options) { o.Hooks = &recorder{gate: h.gate} })
	check(t, os.WriteFile(filepath.Join(m.host, "victim"), []byte("x"), 0o644))
	cmd := exec.Command(require.Program(t, "perl", "perl"), "-e", "$SIG{USR1} = sub {}; unlink($ARGV[0]) or die $!", filepath.Join(m.mnt, "victim"))
	check(t, cmd.Start())
	<-h.arrived
	check(t, cmd.Process.Signal(unix.SIGUSR1))
	within(t, "the interrupt", func() { <-h.interrupted })
	h.release <- nil
	within(t, "the program's end", func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("unlink after a signal: %v", err)
		}
	})
	if _, err := os.Stat(filepath.Join(m.host, "victim")); !os.IsNotExist(err) {
		t.Errorf("the allowed removal did not happen: %v", err)
	}
}

// TestHeldMany holds operations in very many directories at once.
func TestHeldMany(t *testing.T) {
	const many = 2000
	h := newHolder("victim")
	m := mount(t, func(o *vfs.Options) { o.Hooks = &recorder{gate: h.gate} })
	for i := range many {
		dir := filepath.Join(m.host, "d", string(rune('a'+i%26)), time.Duration(i).String())
		check(t, os.MkdirAll(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "victim"), nil, 0o644))
	}
	var wg sync.WaitGroup
	errs := make(chan error, many)
	for i := range many {
		wg.Add(1)
		go func() {
			defer wg.Done()
			dir := filepath.Join(m.mnt, "d", string(rune('a'+i%26)), time.Duration(i).String())
			errs <- os.Remove(filepath.Join(dir, "victim"))
		}()
	}
	within(t, "all to be held", func() {
		for range many {
			<-h.arrived
		}
	})
	within(t, "work beside them", func() { check(t, os.WriteFile(filepath.Join(m.mnt, "free"), nil, 0o644)) })
	for range many {
		h.release <- nil
	}
	within(t, "all to end", wg.Wait)
	for range many {
		check(t, <-errs)
	}
}

// TestHeldClose: closing the server does not wait for held programs. Where we
// may abort the connection they are let go at once, else with the answer.
func TestHeldClose(t *testing.T) {
	h := newHolder("victim")
	m := mount(t, func(o *vfs.Options) { o.Hooks = &recorder{gate: h.gate} })
	check(t, os.WriteFile(filepath.Join(m.host, "victim"), nil, 0o644))
	result := make(chan error, 1)
	go func() { result <- os.Remove(filepath.Join(m.mnt, "victim")) }()
	<-h.arrived
	within(t, "close", func() { check(t, m.Close()) })
	if os.Geteuid() != 0 {
		h.release <- fsbridge.ErrDenied
	}
	within(t, "the program", func() {
		if err := <-result; err == nil {
			t.Error("the removal succeeded")
		}
	})
	h.release <- fsbridge.ErrDenied
	within(t, "the end of service", func() { <-m.Done() })
	if err := m.Fence(context.Background()); err != nil {
		t.Errorf("fence of a closed server: %v", err)
	}
}
