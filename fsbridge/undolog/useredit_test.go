package undolog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// append adds to a file from outside.
func (w *world) append(path, data string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.base, "work", path), os.O_WRONLY|os.O_APPEND, 0)
	w.ok(err)
	_, err = f.WriteString(data)
	w.ok(errors.Join(err, f.Close()))
}

// has makes sure that a file in the folder has a content.
func (w *world) has(path, want string) {
	w.t.Helper()
	if b, err := os.ReadFile(filepath.Join(w.base, "work", path)); err != nil || string(b) != want {
		w.t.Fatalf("%s: %q, %v, want %q", path, b, err, want)
	}
}

// TestU1EditBeforeRemoval has somebody write to a file that a step has renamed, and that it removes then: it comes back with
// what was written, as the step itself wrote nothing to it.
func TestU1EditBeforeRemoval(t *testing.T) {
	for _, end := range []string{"undone", "killed", "aborted"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.outside("c", "one")
			w.begin(w.log.NextID(TypeCommand))
			w.ok(w.rename("c", "d", 0))
			w.append("d", ", and mine")
			w.past(time.Now())
			w.ok(w.unlink("d"))
			switch end {
			case "undone":
				w.commit()
				w.undo(1)
			case "killed":
				crashed(w)
				if r := recovered(t, w); r == nil || len(r.Problems) > 0 {
					t.Fatalf("%+v", r)
				}
			case "aborted":
				if res, err := w.log.Abort(context.Background()); err != nil || res.LeftCount > 0 {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			w.has("c", "one, and mine")
		})
	}
}

// TestU1WrittenInLog has a program outside that goes on writing to a file which a step has removed. That is no content that
// an undo puts back unasked. It stays in the log, is named, and can be had from there.
func TestU1WrittenInLog(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.outside("c", "one")
	w.outside("keep", "one")
	f, err := posix.Open(w.base+"/work/c", posix.O_WRONLY, 0) // which others may rename meanwhile, also on Windows
	w.ok(err)
	defer hostfs.Close(f)
	before := w.snapshot()
	w.step(func() {
		w.ok(w.unlink("c"))
		w.ok(w.write("keep", 0, "two"))
	})
	after := w.snapshot()
	w.ok(hostfs.PwriteFull(f, []byte(", and mine"), int64(len("one"))))
	if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	treesnap.Same(t, "refused", after, w.snapshot())
	res, err := w.log.Undo(context.Background(), UndoOptions{Force: true})
	w.ok(err)
	if !slices.ContainsFunc(res.Left, func(x Left) bool { return x.Path == "c" && x.What == "path" }) {
		t.Fatalf("%+v", res)
	}
	if now := w.snapshot(); now.Line("keep") != before.Line("keep") || now.Line("c") != "" {
		t.Fatalf("%v", now)
	}
	var was bytes.Buffer
	id := w.log.stepEntries()[0].StepID
	w.ok(w.log.Content(context.Background(), id, "c", false, &was))
	if was.String() != "one, and mine" {
		t.Fatalf("%q", was.String())
	}
	w.undo(1)
	w.has("c", "one, and mine")
	w.redo(2)
	treesnap.Same(t, "done again", after, w.snapshot())
}

// TestU1RemovedAbove has somebody remove a directory in which a step has changed a file, and put something else there or not. A
// forced undo makes both anew.
func TestU1RemovedAbove(t *testing.T) {
	for _, instead := range []string{"", "d", "d/e"} {
		w := newWorld(t, testDir(t), Options{})
		defer w.close()
		w.ok(os.MkdirAll(w.base+"/work/d/e", 0o755))
		w.outside("d/e/f", "one")
		before := w.snapshot()
		w.step(func() { w.ok(w.truncate("d/e/f", 0)) })
		w.ok(os.RemoveAll(w.base + "/work/d"))
		if instead != "" {
			w.ok(os.MkdirAll(filepath.Dir(w.base+"/work/"+instead), 0o755))
			w.outside(instead, "mine")
		}
		var barrier *BarrierError
		if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.As(err, &barrier) {
			t.Fatal(err)
		}
		_, err := w.log.Undo(context.Background(), UndoOptions{Force: true})
		w.ok(err)
		if now := w.snapshot(); now.Line("d/e/f") != before.Line("d/e/f") {
			t.Fatalf("%q: %s, not %s", instead, now.Line("d/e/f"), before.Line("d/e/f"))
		}
		w.redo(1)
		if instead != "" {
			w.has(instead, "mine")
		}
	}
}

// TestU1EditOfRemoved has a step be killed that has removed a name of a file, and somebody write to that file by its other name,
// or by a handle: the step is kept, with a barrier, also if whoever keeps it is interrupted.
func TestU1EditOfRemoved(t *testing.T) {
	for _, links := range []int{1, 2} {
		w := newWorld(t, testDir(t), Options{})
		defer w.close()
		w.step(func() {
			w.ok(w.create("b", "one"))
			if links > 1 {
				w.ok(w.link("b", "c"))
			} else {
				w.ok(w.rename("b", "c", 0))
			}
		})
		f, err := posix.Open(w.base+"/work/c", posix.O_WRONLY, 0) // which others may rename meanwhile, also on Windows
		w.ok(err)
		defer hostfs.Close(f)
		w.begin(w.log.NextID(TypeCommand))
		w.ok(w.unlink("c"))
		w.ok(w.create("d", "new"))
		crashed(w)
		w.later()
		w.ok(hostfs.PwriteFull(f, []byte(", and mine"), int64(len("one"))))
		now := w.snapshot()
		if r := recovered(t, w); r == nil || !r.Kept || !slices.Contains(r.Edited, "c") && !slices.Contains(r.Edited, "b") {
			t.Fatalf("%d: %+v", links, r)
		}
		treesnap.Same(t, "kept", now, w.snapshot())
		var barrier *BarrierError
		if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.As(err, &barrier) {
			t.Fatal(err)
		}
	}
}

// TestU1KeptTwice interrupts whoever keeps a killed step that was edited since, after it has written to the step's journal: that
// does not make the edits the step's own.
func TestU1KeptTwice(t *testing.T) {
	w, _ := killedStep(t, false)
	w.later()
	w.outside("f", "mine")
	c, err := w.log.lookAtCut()
	w.ok(err)
	w.ok(store.SettleAlive(c.dir.FD))
	w.ok(cutJournal(c.dir.FD, c.rec.Size))
	w.ok(c.dir.Close())
	now := w.snapshot()
	if r := recovered(t, w); r == nil || !r.Kept || !slices.Contains(r.Edited, "f") {
		t.Fatalf("%+v", r)
	}
	treesnap.Same(t, "kept", now, w.snapshot())
}
