//go:build linux

package mediate

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
	"github.com/codeagent/sandbox/fsbridge/mediate/internal/rawfs"
)

// TestMBNumberUsedAgain: what is remembered of a thread that has ended is not believed of
// another that has its number now.
func TestMBNumberUsedAgain(t *testing.T) {
	dead := exec.Command("true")
	stdin, err := dead.StdinPipe()
	check(t, err)
	check(t, dead.Start())
	known := newThreads()
	defer known.close()
	former, errno := known.get(uint32(dead.Process.Pid))
	if errno != 0 {
		t.Fatal(errno)
	}
	former.umask.Store(0o777)
	former.asOf.Store(known.umasks.Load())
	known.put(former, false)
	stdin.Close()
	check(t, dead.Wait())

	// Now the number is ours.
	self := uint32(os.Getpid())
	known.known[self] = former
	delete(known.known, former.tid)
	former.tid = self
	c := &call{s: &Server{threads: known}}
	c.n.PID = self
	defer c.release()
	check(t, c.masked())
	if c.umask == 0o777 || c.th == former {
		t.Errorf("umask %o of a thread that has ended", c.umask)
	}
	c.release()
	fd, errno := c.procFile(rawfs.Cwd, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer rawfs.Close(fd)
	var got, want rawfs.Info
	rawfs.Look(fd, rawfs.Empty, &got)
	rawfs.Look(atCwd, rawfs.Name(".\x00"), &want)
	if got.ID != want.ID {
		t.Error("another working directory")
	}
}

// TestMBUmaskSettled: a shell that has set its umask and waits for its child is known to
// be done with umask(2), so that the child's umask is remembered; one that runs might be
// in it.
func TestMBUmaskSettled(t *testing.T) {
	start := func(script string) *thread { // which begins when it has said something
		cmd := exec.Command("sh", "-c", "echo begun; "+script)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		th, errno := newThreads().get(uint32(cmd.Process.Pid))
		if errno != 0 {
			t.Fatal(errno)
		}
		t.Cleanup(func() { rawfs.Close(th.proc) })
		return th
	}
	self, errno := newThreads().get(uint32(os.Getpid()))
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { rawfs.Close(self.proc) })
	settled := func(th *thread) bool {
		known := newThreads()
		known.settingUmask(th)
		return known.settled(self)
	}
	waits := start("umask 077; sleep 1000; true")
	for end := time.Now().Add(5 * time.Minute); !settled(waits); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a shell that waits for its child may be in umask(2) for ever")
		}
	}
	for wchan, elsewhere := range map[string]bool{"": false, "0": false, "do_wait": true, "seccomp_do_user_notification.isra.0": false} {
		if notify.SleepsElsewhere([]byte(wchan)) != elsewhere {
			t.Errorf("a thread in %q is known not to be in umask(2): %v", wchan, !elsewhere)
		}
	}
	runs := start("while :; do :; done")
	for range 100 {
		if settled(runs) {
			t.Fatal("a thread that runs is known not to be in umask(2)")
		}
	}
}
