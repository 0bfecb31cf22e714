package undolog

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// One of two names of a file is taken away, and somebody edits the file by the other. Whatever would overwrite the edit asks, and what does not ask leaves it.
func TestU1EditByOtherName(t *testing.T) {
	restore := func(w *world, step int, path string) {
		_, err := w.log.Restore(context.Background(), RestoreOptions{Step: w.log.stepEntries()[step].StepID, Path: path})
		w.ok(err)
	}
	undo := func(w *world) error { _, err := w.log.Undo(context.Background(), UndoOptions{}); return err }
	redo := func(w *world) error { _, err := w.log.Redo(context.Background(), UndoOptions{}); return err }
	pair := func(w *world) { w.ok(w.create("c", "one")); w.ok(w.link("c", "b")) }
	for name, way := range map[string]struct {
		take func(w *world)
		back func(w *world) error
	}{
		"undo of a restore": {func(w *world) { w.step(func() { pair(w) }); restore(w, 0, "c") }, undo},
		"undo of a restore of what a later step wrote": {func(w *world) {
			w.step(func() { pair(w) })
			w.step(func() { w.ok(w.write("b", 0, "two")) })
			restore(w, 0, "c")
		}, undo},
		"undo of a removal": {func(w *world) {
			w.step(func() { pair(w) })
			w.step(func() { w.ok(w.unlink("c")) })
		}, undo},
		"undo of a removal after a write": {func(w *world) {
			w.step(func() { pair(w) })
			w.step(func() { w.ok(w.write("c", 0, "two")); w.ok(w.unlink("c")) })
		}, undo},
		"undo of a replacement": {func(w *world) {
			w.step(func() { pair(w); w.ok(w.create("n", "new")) })
			w.step(func() { w.ok(w.rename("n", "c", 0)) })
		}, undo},
		"undo of a replacement after a write": {func(w *world) {
			w.step(func() { pair(w); w.ok(w.create("n", "new")) })
			w.step(func() { w.ok(w.chmod("c", 0o600)); w.ok(w.write("c", 0, "two")); w.ok(w.rename("n", "c", 0)) })
		}, undo},
		"redo of a removal": {func(w *world) {
			w.step(func() { pair(w) })
			w.step(func() { w.ok(w.unlink("c")) })
			w.undo(1)
			w.redo(1)
		}, undo},
		"redo of a second name": {func(w *world) {
			w.step(func() { w.ok(w.create("b", "one")) })
			w.step(func() { w.ok(w.link("b", "c")) })
			w.undo(1)
		}, redo},
		"redo of a second name and a write": {func(w *world) {
			w.step(func() { w.ok(w.create("b", "one")) })
			w.step(func() { w.ok(w.link("b", "c")); w.ok(w.write("c", 0, "two")) })
			w.undo(1)
		}, redo},
		"redo of a restore": {func(w *world) {
			w.step(func() { pair(w) })
			restore(w, 0, "c")
			w.undo(1)
		}, redo},
		"undo of a redone restore": {func(w *world) {
			w.step(func() { pair(w) })
			restore(w, 0, "c")
			w.undo(1)
			w.redo(1)
		}, undo},
		"undo of a restored removal": {func(w *world) {
			w.step(func() { pair(w) })
			w.step(func() { w.ok(w.unlink("c")) })
			restore(w, 1, "c")
		}, undo},
		"undo of all": {func(w *world) {
			w.step(func() { pair(w) })
			w.step(func() { w.ok(w.unlink("c")) })
		}, func(w *world) error { _, err := w.log.Undo(context.Background(), UndoOptions{Count: 2}); return err }},
	} {
		for mode, lose := range map[string]func(w *world){"": func(*world) {}, ", the stamps are lost": func(w *world) {
			w.ok(w.log.Close())
			w.ok(os.Remove(w.opts.Dir + "/stamps"))
		}} {
			t.Run(strings.ReplaceAll(name+mode, " ", "_"), func(t *testing.T) {
				bothPlaces(t, func(t *testing.T, w *world) {
					way.take(w)
					lose(w)
					w.ok(os.WriteFile(w.base+"/work/b", []byte("by somebody"), 0o600))
					if mode != "" {
						w.openLog()
					}
					var barrier *BarrierError
					err := way.back(w)
					data, rerr := os.ReadFile(w.base + "/work/b")
					if string(data) != "by somebody" || rerr != nil || err != nil && !errors.As(err, &barrier) {
						t.Errorf("after an edit from outside: %v, the file has %q (%v)", err, data, rerr)
					}
				})
			})
		}
	}
}
