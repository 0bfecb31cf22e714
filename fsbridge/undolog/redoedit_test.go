package undolog

import (
	"errors"
	"os"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// Somebody edits what an undo has left, and the edit is noticed, by whatever looks for edits. A redo, which would overwrite it, asks all the same; it does not if the edit was taken back.
func TestU1RedoAfterNoticedEdit(t *testing.T) {
	undo := func(w *world) {
		if _, err := w.log.Undo(t.Context(), UndoOptions{}); err == nil { // of what the edit is not in the way of
			w.redo(1)
		}
	}
	const lost = "as the stamps are lost"
	notice := map[string]func(w *world, path string){
		"not at all": func(*world, string) {},
		"by an undo": func(w *world, _ string) { undo(w) },
		"by a watcher": func(w *world, path string) {
			_, err := w.log.External(t.Context(), []string{path}, Inside{})
			w.ok(err)
		},
		"by an undo, the log is opened again": func(w *world, _ string) {
			undo(w)
			w.ok(w.log.Close())
			w.openLog()
			w.ok(w.log.stamps.Trim(0, true))
		},
		lost: func(w *world, _ string) {
			w.ok(w.log.Close())
			w.ok(os.Remove(w.opts.Dir + "/stamps"))
			w.openLog()
		},
	}
	for name, edit := range map[string]struct {
		path      string
		do, takes func(path string) error // takes takes the edit back
	}{
		"written": {"f", write("by somebody"), write("one")},
		"replaced": {"f", func(p string) error {
			return errors.Join(os.WriteFile(p+".new", []byte("by somebody"), 0o644), os.Rename(p+".new", p))
		}, write("one")},
		"mode":    {"f", func(p string) error { return os.Chmod(p, 0o600) }, func(p string) error { return os.Chmod(p, 0o644) }},
		"removed": {"f", os.Remove, write("one")},
		"made":    {"made", write("by somebody"), os.Remove},
	} {
		for how, notices := range notice {
			if how == lost && name == "removed" {
				continue // nobody can tell, and nothing would be overwritten
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				if name == "mode" {
					needs(t, "modes")
				}
				w := newWorld(t, testDir(t), Options{})
				defer func() { w.close() }()
				w.step(func() { w.ok(w.create("f", "one")) })
				w.step(func() { w.ok(w.write("f", 0, "two")); w.ok(w.create("made", "two")) })
				redone := w.snapshot()
				w.undo(1)
				w.ok(edit.do(w.base + "/work/" + edit.path))
				notices(w, edit.path)
				before := w.snapshot()
				for _, dry := range []bool{true, false} {
					var barrier *BarrierError
					if _, err := w.log.Redo(t.Context(), UndoOptions{DryRun: dry}); !errors.As(err, &barrier) {
						t.Errorf("redo (dry: %v): %v, want a barrier", dry, err)
					}
				}
				treesnap.Same(t, "refused", before, w.snapshot())
				if how == lost {
					return // what the undo had left is not known
				}
				w.ok(edit.takes(w.base + "/work/" + edit.path))
				w.redo(1)
				treesnap.Same(t, "redone", redone, w.snapshot())
			})
		}
	}
}

func write(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}
