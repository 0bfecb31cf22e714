//go:build faults

package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestU2RestOfRedo interrupts a redo, and somebody writes to a file before it is completed: the rest of it comes after the
// step, also when that was undone again, and is not done without force.
func TestU2RestOfRedo(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	w.step(func() {
		w.ok(w.create("f", "one"))
		w.ok(w.create("g", "one"))
	})
	before := w.snapshot()
	w.step(func() {
		w.ok(w.write("f", 0, "two"))
		w.ok(w.write("g", 0, "two"))
		w.ok(w.create("n", "n"))
	})
	after := w.snapshot()
	w.undo(1)
	w.ok(fault.Arm("err:apply.content:1:EIO"))
	if _, err := w.log.Redo(ctx, UndoOptions{}); err == nil {
		t.Fatal("not interrupted")
	}
	w.ok(fault.Arm(""))
	w.afterKill()
	w.outside("g", "mine")
	w.ok(w.log.Close())
	w.openLog()
	if r, err := w.log.Recover(ctx); err != nil || r == nil || !slices.Contains(r.Edited, "g") {
		t.Fatalf("%+v, %v", r, err)
	}
	w.Forget()
	mine := func(when string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(w.base, "work", "g")); err != nil || string(b) != "mine" {
			t.Fatalf("%s: g is %q, %v", when, b, err)
		}
	}
	mine("completed")
	rest := w.log.Undone()
	if len(rest) != 1 || rest[0] == 2 {
		t.Fatalf("to be redone: %v", rest)
	}
	for _, dry := range []bool{true, false} {
		var barrier *BarrierError
		if _, err := w.log.Redo(ctx, UndoOptions{DryRun: dry}); !errors.As(err, &barrier) || !slices.Contains(barrier.Barriers[0].Paths, "g") {
			t.Fatalf("redo of the rest: %v", err)
		}
	}
	mine("refused")
	if _, err := w.log.Undo(ctx, UndoOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	w.Forget()
	if now := w.log.Undone(); len(now) != 2 || now[0] != 2 || now[1] != rest[0] {
		t.Fatalf("to be redone: %v, want the step and then its rest, %v", now, rest)
	}
	w.ok(w.log.Close())
	w.openLog()
	if now := w.log.Undone(); len(now) != 2 || now[0] != 2 || now[1] != rest[0] {
		t.Fatalf("opened again, to be redone: %v", now)
	}
	if _, err := w.log.Redo(ctx, UndoOptions{Count: 2, Force: true}); err != nil {
		t.Fatal(err)
	}
	w.Forget()
	treesnap.Same(t, "all redone", after, w.snapshot())
	if h, err := w.log.History(); err != nil || len(h) < 3 || h[len(h)-2].StepID != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := w.log.Undo(ctx, UndoOptions{Count: 2, Force: true}); err != nil {
		t.Fatal(err)
	}
	w.Forget()
	treesnap.Same(t, "all undone", before, w.snapshot())
}

// TestU2TrashIsNoEdit: an inode of which the log removes a name gets a new time. As long as an interrupted redo awaits
// its completion the log keeps its names, or what is theirs would look edited.
func TestU2TrashIsNoEdit(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	w.step(func() {
		w.ok(w.create("f", "one"))
		w.ok(w.link("f", "g"))
	})
	w.step(func() {
		w.ok(w.unlink("g"))
		w.ok(w.create("n", "n"))
	})
	after := w.snapshot()
	w.undo(1)
	w.log.worker.wait()
	old := filepath.Join(w.log.o.Dir, "trash", "old")
	w.ok(os.Mkdir(old, 0o700))
	w.ok(os.Link(filepath.Join(w.base, "work", "f"), filepath.Join(old, "1")))
	w.log.quiet()
	w.ok(fault.Arm("err:apply.detach:1:EIO"))
	if _, err := w.log.Redo(ctx, UndoOptions{}); err == nil {
		t.Fatal("not interrupted")
	}
	w.ok(fault.Arm(""))
	w.afterKill()
	w.ok(w.log.Close())
	w.openLog()
	_, err := w.log.GC(ctx, GCOptions{CompressAll: true})
	w.ok(err)
	w.log.worker.wait()
	if _, err := os.Lstat(filepath.Join(old, "1")); err != nil {
		t.Errorf("before the recovery: %v", err)
	}
	if r, err := w.log.Recover(ctx); err != nil || r == nil || len(r.Edited) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.Forget()
	treesnap.Same(t, "completed", after, w.snapshot())
	w.log.worker.wait()
	if _, err := os.Lstat(old); !os.IsNotExist(err) {
		t.Errorf("after the recovery: %v", err)
	}
	w.undo(1)
}
