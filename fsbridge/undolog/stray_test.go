package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestBarriersOfOpenFile: writes by a handle on a file that the bridge knows no
// name of are ours wherever they go, and an edit from outside of such a file is
// still seen.
func TestBarriersOfOpenFile(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"an undo moved it back": func(w *world) {
			w.step(func() { w.ok(w.rename("d/f", "d/g", 0)) })
			w.undo(1)
		},
		"another name was removed": func(w *world) {
			w.step(func() { w.ok(w.rename("d/f", "d/g", 0)) })
			w.undo(1)
			w.step(func() { w.ok(w.link("d/f", "d/e")); w.ok(w.unlink("d/e")) })
		},
		"another name was replaced": func(w *world) {
			w.step(func() {
				w.ok(w.link("d/f", "d/e"))
				w.ok(w.create("d/h", "new"))
				w.ok(w.rename("d/h", "d/e", 0))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.step(func() { w.ok(w.mkdir("d")); w.ok(w.create("d/f", "before")) })
			w.ok(w.hold("d/f"))
			lose(w)
			lost := w.snapshot()
			w.step(func() { w.ok(w.poke(0, 2, "!!!!!")) })
			written := w.snapshot()
			w.undo(1)
			treesnap.Same(t, "undone", lost, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "redone", written, w.snapshot())
			w.undo(1)
			w.redo(1)
			w.undo(len(w.log.stepEntries()))
			w.redo(1)
			w.undo(1)
			w.redo(len(w.log.redoEntries()))
			treesnap.Same(t, "all redone", written, w.snapshot())

			w.step(func() { w.ok(w.poke(0, 0, "?")) })
			if err := os.WriteFile(w.base+"/work/d/f", []byte("by somebody"), 0o600); err != nil {
				t.Fatal(err)
			}
			var barrier *BarrierError
			if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.As(err, &barrier) {
				t.Fatalf("undo after an edit from outside: %v, want a barrier", err)
			}
		})
	}
}

// TestStepWhileNameIsRemoved: the trash is emptied behind the steps' back. A
// step that writes to a file and ends while the log's own name of it is
// removed must not be followed by a false barrier.
func TestStepWhileNameIsRemoved(t *testing.T) {
	for when, at := range map[string]struct{ removed, before bool }{
		"before the removal is announced": {before: true},
		"before the removal":              {},
		"before it is reported":           {removed: true, before: true},
	} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.step(func() { w.ok(w.create("f", "before")) })
			before := w.snapshot()
			log := filepath.Join(w.base, "elsewhere")
			w.ok(os.Mkdir(log, 0o700))
			w.ok(os.Link(w.base+"/work/f", log+"/blob")) // as in a step that was dropped
			dir, err := hostfs.OpenRoot(log)
			w.ok(err)
			defer dir.Close()
			wrote := false
			step := func(removed, before bool) {
				if removed == at.removed && before == at.before {
					w.step(func() { w.ok(w.write("f", 2, "!!!!!")) })
					wrote = true
				}
			}
			w.ok(store.RemoveTree(context.Background(), dir.FD(), "blob", func(fd int, removed bool) error {
				step(removed, true)
				err := w.log.stamps.Relink(fd, removed)
				step(removed, false)
				return err
			}, w.log.held))
			if !wrote {
				t.Fatal("the file had no other name")
			}
			w.undo(1)
			treesnap.Same(t, "undone", before, w.snapshot())
		})
	}
}

// Two names of a file are removed at the same time, by whoever empties the trash and by a step that is dropped.
func TestTwoNamesRemovedAtOnce(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("f", "before")) })
	log := filepath.Join(w.base, "elsewhere")
	w.ok(os.Mkdir(log, 0o700))
	for _, name := range []string{"a", "b"} {
		w.ok(os.Link(w.base+"/work/f", filepath.Join(log, name)))
	}
	dir, err := hostfs.OpenRoot(log)
	w.ok(err)
	defer dir.Close()
	remove := func(name string, meanwhile func()) {
		w.ok(store.RemoveTree(context.Background(), dir.FD(), name, func(fd int, removed bool) error {
			err := w.log.stamps.Relink(fd, removed)
			if !removed {
				meanwhile()
			}
			return err
		}, w.log.held))
	}
	remove("a", func() {
		remove("b", func() {})
		w.step(func() { w.ok(w.chmod("f", 0o600)) })
	})
	w.undo(1) // the links before the step were an edit from outside
}
