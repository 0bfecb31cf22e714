package interceptor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func files(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("f%d", i)] = "content"
	}
	return m
}

func deletes(n int) func(*Options) {
	return func(o *Options) { o.Safeguards.DeleteThreshold = n }
}

// SG-01, SG-09: the n-th deletion asks before it is performed, and while it
// waits nothing at all is changed.
func TestSG01HoldsBeforeTheNthDelete(t *testing.T) {
	r := newRig(t, files(6), deletes(3))
	r.assign(5)
	r.must(r.fs.Unlink("f0"))
	r.must(r.fs.Unlink("f1"))
	del := r.start(func() error { return r.fs.Unlink("f2") })
	q := r.asked()
	if q.Kind != messages.KindDelete || q.Count != 3 || q.Step != 5 || q.Command != "test" || len(q.Paths) != 3 || q.Paths[2] != "f2" {
		t.Errorf("question: %+v", q)
	}
	if !r.exists("f2") {
		t.Error("SG-09: deleted before anybody was asked")
	}
	during := r.snap()
	others := []chan error{
		r.start(func() error { return r.fs.Unlink("f3") }),
		r.start(func() error { return r.fs.WriteFile("new", nil) }),
		r.start(func() error { return r.fs.Chmod("f4", 0o600) }),
		r.start(func() error { return r.fs.WriteAt("f5", []byte("x"), 0) }),
	}
	r.held(5)
	r.same(during)
	if state, _ := r.hooks.State(); state != "ok" || !r.hooks.Holding() {
		t.Errorf("state %s, holding %v", state, r.hooks.Holding())
	}

	// SG-02: allow lets them all through, and asks no more in this step.
	r.answer(q, true)
	r.must(actortest.Within(t, "delete", del))
	for _, ch := range others {
		r.must(actortest.Within(t, "held operation", ch))
	}
	if r.exists("f2") || r.exists("f3") || !r.exists("new") {
		t.Error("allowed operations were not performed")
	}
	e, err := r.closeStep(5)
	if err != nil || e == nil || e.AffectedCount < 6 {
		t.Fatalf("close: %+v, %v", e, err)
	}
	r.safeguard.None()
	r.must(r.undo())
	if !r.exists("f0") || !r.exists("f2") || r.exists("new") {
		t.Error("undo after an allowed safeguard")
	}
}

// SG-03: deny fails what is held and everything after it, and rolls the step
// back.
func TestSG03Deny(t *testing.T) {
	r := newRig(t, files(4), deletes(2))
	before := r.snap()
	r.assign(1)
	r.must(r.fs.WriteFile("new", []byte("x")))
	r.must(r.fs.Unlink("f0"))
	del := r.start(func() error { return r.fs.Unlink("f1") })
	r.answer(r.asked(), false)
	if err := actortest.Within(t, "denied delete", del); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("held delete: %v", err)
	}
	f := actortest.Expect[*messages.StepFail](r.owner)
	if f.Step != 1 || f.Outcome != messages.OutcomeDenied || !strings.Contains(f.Reason, "sg_001") {
		t.Errorf("step fail: %+v", f)
	}
	if err := r.fs.WriteFile("more", nil); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("a failing step took a write: %v", err)
	}
	if _, err := r.closeStep(1); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("a denied step was closed: %v", err)
	}
	r.must(r.abort(1))
	r.same(before)
	if len(r.bridge.invalidated) == 0 {
		t.Error("caches were not told of the rollback")
	}
	r.fs.Forget()
	r.must(r.fs.WriteFile("after", nil)) // life goes on
}

// SG-03 for an ambient step: there is no command to end.
func TestSG03DenyAmbient(t *testing.T) {
	r := newRig(t, files(3), deletes(2))
	before := r.snap()
	r.must(r.fs.Unlink("f0"))
	del := r.start(func() error { return r.fs.Unlink("f1") })
	r.answer(r.asked(), false)
	if err := actortest.Within(t, "denied delete", del); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("held delete: %v", err)
	}
	if msg := actortest.Expect[string](r.events); !strings.Contains(msg, "rolled back") {
		t.Errorf("event: %s", msg)
	}
	r.same(before)
}

// SG-05: overwriting and truncating a large file asks, a small one does not,
// nor does appending.
func TestSG05OverwriteLarge(t *testing.T) {
	big := strings.Repeat("x", 2000)
	for name, op := range map[string]func(r *rig) error{
		"write":    func(r *rig) error { return r.fs.WriteAt("big", []byte("y"), 10) },
		"truncate": func(r *rig) error { return r.fs.Truncate("big", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"big": big, "small": "s"}, func(o *Options) { o.Safeguards.OverwriteBytes = 1000 })
			before := r.snap()
			r.must(r.fs.WriteAt("small", []byte("t"), 0))
			r.must(r.fs.WriteAt("big", []byte("appended"), int64(len(big))))
			ch := r.start(func() error { return op(r) })
			q := r.asked()
			if q.Kind != messages.KindOverwrite || q.Paths[0] != "big" {
				t.Errorf("question: %+v", q)
			}
			r.answer(q, true)
			r.must(actortest.Within(t, "write", ch))
			r.must(op(r)) // asked once in a step
			r.must(r.undo())
			r.same(before)
		})
	}
}

// SG-06: renaming over an existing file asks; over a name that is free, or over
// what was made in this step, does not.
func TestSG06RenameOver(t *testing.T) {
	r := newRig(t, files(3), func(o *Options) { o.Safeguards.RenameOver = true })
	r.must(r.fs.WriteFile("made", nil))
	r.must(r.fs.WriteFile("tmp", nil))
	r.must(r.fs.Rename("tmp", "made", 0))
	r.must(r.fs.Rename("f0", "free", 0))
	ch := r.start(func() error { return r.fs.Rename("f1", "f2", 0) })
	q := r.asked()
	if q.Kind != messages.KindRename || q.Paths[0] != "f2" {
		t.Errorf("question: %+v", q)
	}
	if !r.exists("f1") {
		t.Error("performed before the answer")
	}
	r.answer(q, true)
	r.must(actortest.Within(t, "rename", ch))
}

// What the step made itself may be deleted without counting; exempt paths too.
func TestDeletesThatDoNotCount(t *testing.T) {
	r := newRig(t, map[string]string{"a": "", "b": "", "build/x.o": "", "build/sub/y.o": ""}, func(o *Options) {
		o.Safeguards.DeleteThreshold = 2
		o.Safeguards.Exempt = []string{"build/**"}
	})
	for i := range 5 {
		name := fmt.Sprintf("made%d", i)
		r.must(r.fs.WriteFile(name, nil))
		r.must(r.fs.Unlink(name))
	}
	r.must(r.fs.Unlink("build/x.o"))
	r.must(r.fs.Unlink("build/sub/y.o"))
	r.must(r.fs.Unlink("a"))
	r.safeguard.None()
	ch := r.start(func() error { return r.fs.Unlink("b") })
	r.answer(r.asked(), true)
	r.must(actortest.Within(t, "delete", ch))
}

// The kernel forgets inodes when memory is short. What the step made is known to be its own all the same.
func TestMadeAndForgotten(t *testing.T) {
	r := newRig(t, files(1), func(o *Options) {
		o.Safeguards = Safeguards{DeleteThreshold: 1, OverwriteBytes: 1000, RenameOver: true, Protect: true}
		o.Entry = approval.Entry
	})
	r.assign(1)
	large := make([]byte, 2000)
	r.must(r.fs.MkdirAll("sub/.git"))
	for _, name := range []string{"a", "b", "c", "sub/d", "sub/.git/config"} {
		r.must(r.fs.WriteFile(name, large))
	}
	r.must(r.fs.Rename("f0", "sub/f0", 0)) // it was there before
	r.must(r.fs.Symlink("a", "link"))
	for what, do := range map[string]func() error{
		"overwrite":        func() error { return r.fs.WriteAt("a", large, 0) },
		"rename over":      func() error { return r.fs.Rename("c", "b", 0) },
		"delete":           func() error { return r.fs.Unlink("link") },
		"delete below":     func() error { return r.fs.Unlink("sub/d") },
		"protected, below": func() error { return r.fs.WriteAt("sub/.git/config", large, 0) },
	} {
		r.fs.Forget()
		if err := actortest.Within(t, what, r.start(do)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.safeguard.None()
	r.fs.Forget()
	done := r.start(func() error { return r.fs.Unlink("sub/f0") })
	r.answer(r.asked(), true)
	r.must(actortest.Within(t, "delete of what was there", done))
}

// SG-07, DOS-02: the queue of held operations is bounded; what is beyond fails
// with ENOSPC at once, and what is in it goes on after the answer.
func TestSG07QueueCap(t *testing.T) {
	const limit = 100
	r := newRig(t, files(1), func(o *Options) { o.Safeguards.DeleteThreshold = 1; o.MaxHeldOps = limit })
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	var refused, done atomic.Int32
	for i := range 3 * limit {
		go func() {
			err := r.fs.Mkdir(fmt.Sprintf("d%d", i), 0o755)
			switch {
			case errors.Is(err, fsbridge.ErrNoSpace):
				refused.Add(1)
			case err == nil:
				done.Add(1)
			default:
				t.Errorf("flood: %v", err)
			}
		}()
	}
	actortest.Eventually(t, "the flood is refused", func() bool { return refused.Load() == 2*limit+1 })
	if r.node.Holds() != limit {
		t.Errorf("%d operations held", r.node.Holds())
	}
	if r.exists("d0") {
		t.Error("performed while held")
	}
	r.answer(q, true)
	r.must(actortest.Within(t, "delete", del))
	actortest.Eventually(t, "held operations are performed", func() bool { return done.Load() == limit-1 })
}

// DOS-02: request data that is held is bounded too.
func TestDOS02HeldBytes(t *testing.T) {
	r := newRig(t, files(2), func(o *Options) { o.Safeguards.DeleteThreshold = 1; o.MaxHeldBytes = 100 })
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	small := r.start(func() error { return r.fs.WriteAt("f1", make([]byte, 60), 0) })
	r.held(2)
	if err := r.fs.WriteAt("f1", make([]byte, 60), 0); !errors.Is(err, fsbridge.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	r.answer(q, true)
	r.must(actortest.Within(t, "delete", del))
	r.must(actortest.Within(t, "write", small))
}

// A process that is killed while it is held is let go; a signal that does not
// kill ends nothing.
func TestKilledWhileHeld(t *testing.T) {
	var fatal atomic.Bool
	var polls atomic.Int32
	r := newRig(t, files(2), func(o *Options) {
		o.Safeguards.DeleteThreshold = 1
		o.Dying = func(pid uint32) bool { polls.Add(1); return pid == 42 && fatal.Load() }
	})
	cancel := make(chan struct{})
	r.fs.Prepare = func(op *fsbridge.Op) { op.PID, op.Cancel = 42, cancel }
	r.assign(1)
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	close(cancel) // SIGURG, say
	actortest.Eventually(t, "the process is looked at", func() bool { return polls.Load() > 0 })
	r.clock.WaitArmed(pollInterval)
	r.clock.Advance(pollInterval)
	actortest.Eventually(t, "the process is looked at again", func() bool { return polls.Load() > 1 })
	if r.node.Holds() != 1 {
		t.Fatal("a signal ended the hold")
	}
	fatal.Store(true)
	r.clock.WaitArmed(pollInterval)
	r.clock.Advance(pollInterval)
	if err := actortest.Within(t, "held delete", del); !errors.Is(err, fsbridge.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	// Nobody waits for the question any more: the step can end.
	if _, err := r.closeStep(1); err != nil {
		t.Error(err)
	}
	if w := actortest.Expect[*messages.Withdraw](r.safeguard); w.Token != q.Token {
		t.Errorf("withdrawn: %+v", w)
	}
	if !r.exists("f0") {
		t.Error("deleted")
	}
}

// A late answer decides nothing.
func TestStaleAnswer(t *testing.T) {
	r := newRig(t, files(3), deletes(1))
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	q.Answer(&messages.Answer{Token: q.Token - 1, Allow: true})
	r.held(1)
	r.answer(q, false)
	if err := actortest.Within(t, "delete", del); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("got %v", err)
	}
	r.answer(q, true)
	actortest.Expect[string](r.events)
	if !r.exists("f0") {
		t.Error("deleted")
	}
}

// A hold may last as long as the decision: the reply's deadline does not run.
func TestHoldIsNotLiveness(t *testing.T) {
	r := newRig(t, files(1), func(o *Options) {
		o.Safeguards = Safeguards{DeleteThreshold: 1, Timeout: time.Minute}
		o.ReplyDeadline = time.Second
	})
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	for range 50 {
		r.clock.Advance(time.Second)
	}
	r.held(1)
	r.answer(q, true)
	r.must(actortest.Within(t, "delete", del))
}

func TestExempt(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.o", "a/b/c.o", true},
		{"*.o", "c.o", true},
		{"*.o", "c.oo", false},
		{"build/**", "build/a/b", true},
		{"build/**", "src/build/a", false},
		{"**/node_modules/**", "x/y/node_modules/z/w", true},
		{"**/node_modules/**", "node_modules/z", true},
		{"/top", "top", true},
		{"/top", "a/top", false},
		{"a/*/c", "a/b/c", true},
		{"a/*/c", "a/b/b/c", false},
		{"[", "[", false},
		{"*.{o,a}", "a/b/c.a", true},
		{"*.{o,a}", "a/b/c.c", false},
		{"{build,dist}/**", "dist/a/b", true},
		{"a[!b]c", "a/c", false},
	} {
		if got := exempt([]string{c.pattern}, c.path); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.path, got)
		}
	}
}

// dying reads /proc: this process lives, one that was never there does not.
func TestDying(t *testing.T) {
	if dying(0) || dying(uint32(os.Getpid())) {
		t.Error("the living are taken for dead")
	}
	if !dying(1<<22 + 1) {
		t.Error("a process that is gone is taken for alive")
	}
}

// What a name binds may change while the operation waits. Then neither the log
// nor the folder is touched, and the kernel is told to look again.
func TestHeldNameBoundAnew(t *testing.T) {
	r := newRig(t, files(2), deletes(1))
	r.assign(1)
	del := r.start(func() error { return r.fs.Unlink("f0") })
	q := r.asked()
	r.must(os.Rename(filepath.Join(r.dir, "f1"), filepath.Join(r.dir, "f0"))) // by somebody outside
	after := r.snap()
	r.answer(q, true)
	if err := actortest.Within(t, "delete", del); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("the delete of another file ended with %v", err)
	}
	r.same(after)
}
