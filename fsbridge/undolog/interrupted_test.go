package undolog

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// halfStep is a folder with a second step under way. It has written to f and keep, removed a/notes, made n/n, renamed old
// to new; it has left g alone. first and second do more in the two steps.
func halfStep(t *testing.T, first, second func(w *world)) (w *world, before *treesnap.Snapshot) {
	w = newWorld(t, testDir(t), Options{})
	t.Cleanup(w.close)
	w.step(func() {
		w.ok(w.create("f", "one"))
		w.ok(w.create("keep", "one"))
		w.ok(w.create("g", "one"))
		w.ok(w.create("old", "old"))
		w.ok(w.mkdir("a"))
		w.ok(w.create("a/notes", "notes"))
		first(w)
	})
	before = w.snapshot()
	w.begin(w.log.NextID(TypeCommand))
	w.ok(w.write("f", 0, "two, and longer"))
	w.ok(w.write("keep", 0, "two"))
	w.ok(w.unlink("a/notes"))
	w.ok(w.mkdir("n"))
	w.ok(w.create("n/n", "n"))
	second(w)
	w.ok(w.rename("old", "new", 0))
	return w, before
}

// killedStep is [halfStep] whose second step was killed in the middle.
func killedStep(t *testing.T, looks bool) (w *world, before *treesnap.Snapshot) {
	w, before = halfStep(t, func(*world) {}, func(*world) {})
	w.opts.Looks = looks
	crashed(w)
	return w, before
}

// later waits until what is written now was surely not written by the killed step.
func (w *world) later() {
	w.t.Helper()
	dir, err := hostfs.OpenDirAt(w.log.at.Wal, "in_progress")
	w.ok(err)
	defer hostfs.Close(dir)
	death, err := store.ReadAlive(dir)
	w.ok(err)
	w.past(death.Step())
}

// TestU1LookingChangesNothing looks in every way at a folder in which a step was killed.
func TestU1LookingChangesNothing(t *testing.T) {
	w, _ := killedStep(t, true)
	w.later()
	w.outside("f", "mine")
	w.outside("n/mine", "mine")
	folder, log := w.snapshot(), treesnap.MustTake(t, w.base+"/undo")
	ctx := context.Background()

	h, err := w.log.History()
	w.ok(err)
	if len(h) != 2 || h[0].StepID != 2 || h[0].Status != "interrupted" || h[0].AffectedCount == 0 {
		t.Fatalf("%+v", h)
	}
	if i := w.log.Status().Interrupted; i == nil || i.Kind != "step" || i.StepID != 2 {
		t.Fatalf("%+v", i)
	}
	d, err := w.log.Step(2)
	w.ok(err)
	if !slices.ContainsFunc(d.Paths, func(a Affected) bool { return a.Path == "a/notes" }) {
		t.Fatalf("%+v", d.Paths)
	}
	var diff, was bytes.Buffer
	w.ok(w.log.Diff(ctx, 2, &diff))
	if !bytes.Contains(diff.Bytes(), []byte("-notes")) {
		t.Fatalf("%s", diff.Bytes())
	}
	w.ok(w.log.Content(ctx, 2, "f", false, &was))
	if was.String() != "one" {
		t.Fatalf("f was %q", was.String())
	}
	for _, o := range []UndoOptions{{DryRun: true}, {DryRun: true, Count: 2}} {
		var barrier *BarrierError
		if _, err := w.log.Undo(ctx, o); !errors.As(err, &barrier) || !slices.Contains(barrier.Barriers[0].Paths, "f") {
			t.Fatalf("%v", err)
		}
		o.Force = true
		if res, err := w.log.Undo(ctx, o); err != nil || res.Steps[0].StepID != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if _, err := w.log.Redo(ctx, UndoOptions{DryRun: true}); !errors.Is(err, ErrNoRedo) {
		t.Fatal(err)
	}
	treesnap.Same(t, "folder", folder, w.snapshot())
	treesnap.Same(t, "log", log, treesnap.MustTake(t, w.base+"/undo"))

	if _, err := w.log.Restore(ctx, RestoreOptions{Path: "a", Step: 2, DryRun: true}); err != nil {
		t.Fatal(err)
	}
	w.ok(w.log.Mark("here"))
	if _, err := w.log.GC(ctx, GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "folder after gc", folder, w.snapshot())
	if i := w.log.Status().Interrupted; i == nil {
		t.Fatal("the step was taken up")
	}
}

// TestU1RecoveryCanBeRedone rolls a killed step back, and brings it back.
func TestU1RecoveryCanBeRedone(t *testing.T) {
	w, before := killedStep(t, false)
	killed := w.snapshot()
	r := recovered(t, w)
	if r == nil || r.Kept || r.Restored == 0 || r.Command != "" && r.StepID != 2 {
		t.Fatalf("%+v", r)
	}
	treesnap.Same(t, "recovered", before, w.snapshot())
	w.redo(1)
	treesnap.Same(t, "redone", killed, w.snapshot())
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
	w.redo(1)
	w.undo(2)
}

// TestU1EditsAfterKill has somebody change each path of a killed step in every way, before the step is
// taken up.
func TestU1EditsAfterKill(t *testing.T) {
	work := func(w *world, path string) string { return filepath.Join(w.base, "work", path) }
	edits := map[string]func(w *world) string{ // returns the path
		"written": func(w *world) string { w.outside("f", "mine"); return "f" },
		"replaced": func(w *world) string {
			w.outside("tmp", "mine")
			w.ok(os.Rename(work(w, "tmp"), work(w, "f")))
			return "f"
		},
		"as long":      func(w *world) string { w.outside("keep", "TWO"); return "keep" },
		"mode":         func(w *world) string { w.ok(os.Chmod(work(w, "keep"), 0o600)); return "keep" },
		"removed":      func(w *world) string { w.ok(os.Remove(work(w, "keep"))); return "keep" },
		"made again":   func(w *world) string { w.outside("a/notes", "mine"); return "a/notes" },
		"made":         func(w *world) string { w.outside("n/mine", "mine"); return "n/mine" },
		"renamed":      func(w *world) string { w.ok(os.Rename(work(w, "new"), work(w, "old"))); return "old" },
		"written, new": func(w *world) string { w.outside("n/n", "mine"); return "n/n" },
		"written, old times": func(w *world) string {
			w.outside("f", "mine")
			w.ok(os.Chtimes(work(w, "f"), time.Unix(1, 0), time.Unix(1, 0)))
			return "f"
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			if name == "mode" {
				needs(t, "modes")
			}
			w, before := killedStep(t, false)
			w.later()
			path := edit(w)
			now := w.snapshot()
			r := recovered(t, w)
			if r == nil || !r.Kept || !slices.Contains(r.Edited, path) {
				t.Fatalf("%+v, want %q", r, path)
			}
			treesnap.Same(t, "kept", now, w.snapshot())
			if r := recovered(t, w); r != nil {
				t.Fatalf("again: %+v", r)
			}
			w.ok(w.log.Close())
			w.openLog()
			var barrier *BarrierError
			if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.As(err, &barrier) || !slices.Contains(barrier.Barriers[0].Paths, path) {
				t.Fatalf("undo: %v, want a barrier at %q", err, path)
			}
			treesnap.Same(t, "refused", now, w.snapshot())
			if _, err := w.log.Undo(context.Background(), UndoOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
			w.Forget()
			treesnap.Same(t, "forced", before, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "redone", now, w.snapshot())
		})
	}
}

// TestU1EditsBeside has somebody write beside a killed step's files: that is no reason to keep it, and
// stays.
func TestU1EditsBeside(t *testing.T) {
	w, before := killedStep(t, false)
	w.later()
	w.outside("g", "mine")
	w.outside("a/other", "mine")
	if r := recovered(t, w); r == nil || r.Kept {
		t.Fatalf("%+v", r)
	}
	if now := w.snapshot(); now.Line("f") != before.Line("f") {
		t.Fatalf("f is %s", now.Line("f"))
	}
	for path, want := range map[string]string{"g": "mine", "a/other": "mine"} {
		if b, err := os.ReadFile(filepath.Join(w.base, "work", path)); err != nil || string(b) != want {
			t.Fatalf("%s: %q, %v", path, b, err)
		}
	}
}

// TestU1UndoTakesUp undoes a killed step as the newest one, and a redo of it lets it be.
func TestU1UndoTakesUp(t *testing.T) {
	w, before := killedStep(t, true)
	killed := w.snapshot()
	res, err := w.log.Undo(context.Background(), UndoOptions{})
	w.ok(err)
	w.Forget()
	if len(res.Steps) != 1 || res.Steps[0].StepID != 2 || res.PathCount == 0 {
		t.Fatalf("%+v", res)
	}
	treesnap.Same(t, "undone", before, w.snapshot())
	w.redo(1)
	treesnap.Same(t, "redone", killed, w.snapshot())

	w, before = killedStep(t, true)
	killed = w.snapshot()
	res, err = w.log.Redo(context.Background(), UndoOptions{})
	w.ok(err)
	w.Forget()
	if len(res.Steps) != 1 || res.Steps[0].StepID != 2 {
		t.Fatalf("%+v", res)
	}
	treesnap.Same(t, "kept", killed, w.snapshot())
	if h, err := w.log.History(); err != nil || len(h) != 2 || h[0].Status != "interrupted" {
		t.Fatalf("%+v, %v", h, err)
	}
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
}

// TestU1ForeseenIsNewest kills a step of which all was captured ahead of its write, when another one was undone before: what a redo brings back
// is the killed one, however that was taken back.
func TestU1ForeseenIsNewest(t *testing.T) {
	for name, back := range map[string]func(w *world){
		"undone": func(w *world) { w.undo(1) },
		"rolled back": func(w *world) {
			_, err := w.log.Recover(context.Background())
			w.ok(err)
			w.Forget()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{Looks: name == "undone"})
			defer w.close()
			w.step(func() { w.ok(w.create("f", "one")) })
			before := w.snapshot()
			w.step(func() { w.ok(w.rename("f", "g", 0)) })
			w.undo(1)
			w.Prepare = func(op *fsbridge.Op) { op.Ahead, op.Off, op.Len = op.Kind == fsbridge.OpWrite, 0, math.MaxInt64 }
			w.begin(w.log.NextID(TypeCommand))
			w.ok(w.write("f", 0, "two, and longer"))
			killed := w.snapshot()
			crashed(w)
			back(w)
			treesnap.Same(t, "taken back", before, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "done again", killed, w.snapshot())
			if n := len(w.log.Undone()); n != 0 {
				t.Errorf("%d more to be done again", n)
			}
		})
	}
}

// TestU1NoSignOfLife takes up a step of which nothing tells when it was killed: what is not sure to be
// its own is left.
func TestU1NoSignOfLife(t *testing.T) {
	w, _ := killedStep(t, false)
	dir := w.base + "/undo/wal/in_progress/"
	w.ok(os.Remove(dir + store.AliveName))
	w.ok(os.Chtimes(dir+"journal", time.Unix(1, 0), time.Unix(1, 0)))
	now := w.snapshot()
	if r := recovered(t, w); r == nil || !r.Kept || len(r.Edited) == 0 {
		t.Fatalf("%+v", r)
	}
	treesnap.Same(t, "kept", now, w.snapshot())
}
