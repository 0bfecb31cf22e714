//go:build linux

package mediate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// holder is a gate that holds the operations on names that begin with "held".
type holder struct {
	held    chan string // names, as they are held
	release chan error  // what the held ones get
	ended   chan error  // how the cancelled ones ended
}

func newHolder() *holder {
	return &holder{held: make(chan string, 1000), release: make(chan error), ended: make(chan error, 1000)}
}

func (h *holder) gate(op *fsbridge.Op) error {
	if !strings.HasPrefix(op.Name, "held") {
		return nil
	}
	op.Held(op.Request)
	op.Dirs.Pause()
	h.held <- op.Name
	select {
	case err := <-h.release:
		return errors.Join(err, op.Dirs.Resume(nil))
	case <-op.Cancel:
		h.ended <- fsbridge.ErrInterrupted
		return fsbridge.ErrInterrupted
	}
}

// threadsWork makes one file in each of many threads, and meanwhile directories as it is
// told to.
func threadsWork(w *workload) {
	var wg sync.WaitGroup
	for _, name := range w.args {
		wg.Add(1)
		go func() {
			defer wg.Done()
			fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT, 0o644)
			if err == nil {
				_ = unix.Close(fd)
			}
			w.say("%s %v", name, err)
		}()
	}
	for name := w.hear(); name != "wait"; name = w.hear() {
		w.say("%s %v", name, unix.Mkdir(name, 0o755))
	}
	wg.Wait()
}

// A held operation holds up no other, however many are held.
func TestMBHeld(t *testing.T) {
	j := newJail(t)
	h := newHolder()
	j.hooks.gate = h.gate
	var names []string
	for i := range 40 {
		names = append(names, "held"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	in := j.start("threads", names...)
	for range names {
		<-h.held
	}
	// All of them wait; the same directory is free.
	for _, name := range []string{"free1", "free2"} {
		in.say(name)
		if got := in.hear(); got != name+" <nil>" {
			t.Error(got)
		}
	}
	if n := j.f.InFlight(); n != len(names) {
		t.Errorf("%d calls in flight, %d are held", n, len(names))
	}
	h.release <- fsbridge.ErrDenied
	for range names[1:] {
		h.release <- nil
	}
	in.say("wait")
	out := in.ok()
	if strings.Count(out, "<nil>") != len(names)-1 || strings.Count(out, "operation not permitted") != 1 {
		t.Errorf("%s", out)
	}
}

// killsWork is a parent whose child is killed while its operation is held.
func killsWork(w *workload) {
	for i := range 3 {
		p, err := os.StartProcess("/bin/mkdir", []string{"mkdir", "held"}, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
		if err != nil {
			w.say("%v", err)
			return
		}
		w.say("started")
		w.hear()
		start := time.Now()
		_ = p.Kill()
		_, _ = p.Wait()
		w.say("killed %v", time.Since(start) < time.Minute)
		_ = i
	}
}

// What was asked for is not performed once who asked has ended, however late the Interceptor lets it in: by then the step of a
// command that was denied may have been rolled back.
func TestMBEndedBeforeItsTurn(t *testing.T) {
	j := newJail(t)
	held, release := make(chan struct{}), make(chan struct{})
	j.hooks.gate = func(op *fsbridge.Op) error {
		if op.Name == "held" {
			op.Held(op.Request)
			op.Dirs.Pause()
			held <- struct{}{}
			<-release
			return op.Dirs.Resume(nil)
		}
		return nil
	}
	in := j.start("kills")
	for range 3 {
		in.hear()
		actortest.Within(t, "the operation", held)
		in.say("kill it")
		if got := in.hear(); got != "killed true" {
			t.Error(got)
		}
		release <- struct{}{}
	}
	in.ok()
	actortest.Eventually(t, "all answers", func() bool { return j.f.InFlight() == 0 })
	if _, err := os.Lstat(filepath.Join(j.folder, "held")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the operation of a process that had ended was performed: %v", err)
	}
}

// SIGKILL ends a caller whose operation is held, and then the operation.
func TestMBKilledWhileHeld(t *testing.T) {
	j := newJail(t)
	h := newHolder()
	j.hooks.gate = h.gate
	in := j.start("kills")
	for range 3 {
		in.hear()
		<-h.held
		in.say("kill it")
		if got := in.hear(); got != "killed true" {
			t.Error(got)
		}
		if err := <-h.ended; !errors.Is(err, fsbridge.ErrInterrupted) {
			t.Error(err)
		}
	}
	in.ok()
	if _, err := os.Lstat(filepath.Join(j.folder, "held")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the operation of a killed process was performed: %v", err)
	}
}

// When the Interceptor has failed nothing is changed, and reading goes on.
func TestMBInterceptorFailed(t *testing.T) {
	j := newJail(t)
	put(filepath.Join(j.folder, "a"), "kept\n")
	j.hooks.gate = func(*fsbridge.Op) error { return fsbridge.ErrFailed }
	out := j.sh(`exec 2>&1; cat a; echo x > a; echo x > b; mkdir c; rm -f a; mv a d; chmod 700 a; ln a e; ls; cat a`)
	if strings.Count(out, "kept\n") != 2 || strings.Count(out, "nput/output error") != 7 {
		t.Error(out)
	}
	// A panic is no more than that, nor a fault, which is a signal.
	j2 := newJail(t)
	j2.hooks.gate = func(op *fsbridge.Op) error {
		switch op.Name {
		case "panic":
			panic("of the test")
		case "fault":
			(*recorder)(nil).take()
		}
		return nil
	}
	if out := j2.sh(`exec 2>&1; mkdir panic; mkdir fault; mkdir fine; ls`); !strings.Contains(out, "nput/output error") || !strings.HasSuffix(out, "fine\n") {
		t.Error(out)
	}
}

// A folder that takes no writes is as on a read-only mount.
func TestMBReadOnly(t *testing.T) {
	j := newJail(t)
	put(filepath.Join(j.folder, "a"), "kept\n")
	j.o.ReadOnly = true
	out := j.sh(`exec 2>&1; cat a; (echo x > a); (echo x > b); mkdir c; rm -f a; mv a d; chmod 700 a; test -w a || echo no; ls`)
	if strings.Count(out, "ead-only file system") != 6 || !strings.HasSuffix(out, "no\na\n") {
		t.Error(out)
	}
	if seen := j.hooks.take(); len(seen) != 0 {
		t.Errorf("the Interceptor was asked: %v", seen)
	}
}

// Close lets go of whoever waits for nothing, and what is asked later fails.
func TestMBClose(t *testing.T) {
	j := newJail(t)
	h := newHolder()
	j.hooks.gate = h.gate
	in := j.start("threads", "held1")
	<-h.held
	check(t, j.server.Close())
	h.release <- nil
	<-j.server.Done()
	in.say("wait")
	if out := in.ok(); !strings.Contains(out, "held1") {
		t.Error(out)
	}
}
