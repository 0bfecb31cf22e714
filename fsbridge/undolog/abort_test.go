package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// openStep is [halfStep] whose second step is open, and has moved a directory, too.
func openStep(t *testing.T) (w *world, before *treesnap.Snapshot) {
	return halfStep(t, func(w *world) {
		w.ok(w.mkdir("d"))
		w.ok(w.create("d/in", "in"))
	}, func(w *world) { w.ok(w.rename("d", "n/d", 0)) })
}

func (w *world) abort() *ApplyResult {
	w.t.Helper()
	res, err := w.log.Abort(context.Background())
	w.ok(err)
	w.NewEpoch()
	w.Forget()
	return res
}

// TestU2AbortCanBeRedone rolls an open step back, and brings it back.
func TestU2AbortCanBeRedone(t *testing.T) {
	w, before := openStep(t)
	open := w.snapshot()
	if res := w.abort(); res.LeftCount > 0 || res.PathCount == 0 {
		t.Fatalf("%+v", res)
	}
	treesnap.Same(t, "rolled back", before, w.snapshot())
	if h, err := w.log.History(); err != nil || len(h) != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	for _, dry := range []bool{false, true} {
		if _, err := w.log.Redo(context.Background(), UndoOptions{Careful: true, DryRun: dry}); !errors.Is(err, ErrNoRedo) {
			t.Fatalf("redo by who may not: %v", err)
		}
	}
	w.redo(1)
	treesnap.Same(t, "redone", open, w.snapshot())
	if h, err := w.log.History(); err != nil || len(h) != 2 || h[0].Status != StatusRolledBack {
		t.Fatalf("%+v, %v", h, err)
	}
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
}

// TestU2AbortLeavesEdits has somebody change each path of an open step in every way: a rollback leaves that, by name,
// and puts all else back.
func TestU2AbortLeavesEdits(t *testing.T) {
	work := func(w *world, path string) string { return filepath.Join(w.base, "work", path) }
	edits := map[string]struct {
		at   string // the path that is left
		edit func(w *world)
	}{
		"written":  {"f", func(w *world) { w.outside("f", "mine") }},
		"as long":  {"keep", func(w *world) { w.outside("keep", "TWO") }},
		"mode":     {"keep", func(w *world) { w.ok(os.Chmod(work(w, "keep"), 0o600)) }},
		"again":    {"a/notes", func(w *world) { w.outside("a/notes", "mine") }},
		"made":     {"n", func(w *world) { w.outside("n/mine", "mine") }},
		"new":      {"n", func(w *world) { w.outside("n/n", "mine") }},
		"moved in": {"n", func(w *world) { w.outside("mine", "mine"); w.ok(os.Rename(work(w, "mine"), work(w, "n/mine"))) }},
		"replaced": {"f", func(w *world) {
			w.outside("tmp", "mine")
			w.ok(os.Rename(work(w, "tmp"), work(w, "f")))
		}},
		"old times": {"f", func(w *world) {
			w.outside("f", "mine")
			w.ok(os.Chtimes(work(w, "f"), time.Unix(1, 0), time.Unix(1, 0)))
		}},
	}
	for name, c := range edits {
		t.Run(name, func(t *testing.T) {
			if name == "mode" {
				needs(t, "modes")
			}
			w, before := openStep(t)
			w.past(time.Now())
			c.edit(w)
			open := w.snapshot()
			res := w.abort()
			if !slices.ContainsFunc(res.Left, func(x Left) bool { return x.Path == c.at && isChanged(x) }) {
				t.Fatalf("%+v", res.Left)
			}
			now := w.snapshot()
			if e := now.Entries[c.at]; e.Type.IsDir() { // what the step had moved there was taken out of it
				e.MtimeNS = open.Entries[c.at].MtimeNS
				now.Entries[c.at] = e
			}
			for path := range open.Entries {
				if path == c.at || len(path) > len(c.at) && path[:len(c.at)+1] == c.at+"/" && path != "n/d" && path != "n/d/in" {
					if now.Line(path) != open.Line(path) {
						t.Errorf("%s was %s, is %s", path, open.Line(path), now.Line(path))
					}
				}
			}
			for _, path := range []string{"f", "keep", "old", "a/notes", "d/in"} {
				if path != c.at && now.Line(path) != before.Line(path) {
					t.Errorf("%s was %s before, is %s", path, before.Line(path), now.Line(path))
				}
			}
			var barrier *BarrierError
			if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.As(err, &barrier) || !slices.Contains(barrier.Barriers[0].Paths, c.at) {
				t.Fatalf("undo: %v, want a barrier at %q", err, c.at)
			}
			rolledBack := w.snapshot()
			if _, err := w.log.Undo(context.Background(), UndoOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
			w.Forget()
			treesnap.Same(t, "forced", before, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "redone", rolledBack, w.snapshot())
		})
	}
}

// TestU2AbortBeside: what is no part of the step stays, and hinders nothing.
func TestU2AbortBeside(t *testing.T) {
	w, before := openStep(t)
	w.past(time.Now())
	w.outside("g", "mine")
	w.outside("a/other", "mine")
	w.outside("n/d/in", "mine") // of a directory that the step only moved
	if res := w.abort(); res.LeftCount > 0 {
		t.Fatalf("%+v", res.Left)
	}
	if now := w.snapshot(); now.Line("f") != before.Line("f") || now.Line("old") != before.Line("old") || now.Line("n") != "" {
		t.Fatalf("%+v", now)
	}
	for path, want := range map[string]string{"g": "mine", "a/other": "mine", "d/in": "mine"} {
		if b, err := os.ReadFile(filepath.Join(w.base, "work", path)); err != nil || string(b) != want {
			t.Fatalf("%s: %q, %v", path, b, err)
		}
	}
}

// TestU2AbortLent: of a file to which somebody inside can write without asking nobody can tell who did, until that is
// known to be over. What is replaced then can be brought back.
func TestU2AbortLent(t *testing.T) {
	for _, over := range []bool{false, true} {
		w, before := openStep(t)
		op := fsbridge.Op{Lends: true, Node: &fsbridge.Object{ID: w.id("keep")}}
		w.log.changed(&op, nil)
		w.outside("keep", "written inside")
		w.log.Written(nil)
		if over {
			w.past(time.Now())
			w.outside("keep", "mine")
		}
		open := w.snapshot()
		w.abort()
		now := w.snapshot()
		if over && now.Line("keep") != open.Line("keep") || !over && now.Line("keep") != before.Line("keep") {
			t.Fatalf("over: %v: keep is %s", over, now.Line("keep"))
		}
		if !over {
			w.redo(1)
			treesnap.Same(t, "redone", open, w.snapshot())
		}
	}
}

func (w *world) id(path string) hostfs.ID {
	w.t.Helper()
	st, err := hostfs.StatAt(w.log.root.FD(), path)
	w.ok(err)
	return st.ID
}
