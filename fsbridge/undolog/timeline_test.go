package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The timeline has the undone steps before the others, the newest first, also after a restart,
// also where an edit from outside stands in the way of a redo, until something new is run.
func TestTimeline(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	check := func(when string, want ...StepID) { // undone ones are negative
		t.Helper()
		list, err := w.log.Timeline()
		w.ok(err)
		var got []StepID
		for _, e := range list {
			switch {
			case e.Undone:
				got = append(got, -e.StepID)
			case e.Type != TypeBarrier:
				got = append(got, e.StepID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
		steps, err := w.log.History()
		w.ok(err)
		for _, e := range steps {
			if e.Undone {
				t.Errorf("%s: the history has undone step %d", when, e.StepID)
			}
		}
	}
	check("empty")
	for _, name := range []string{"a", "b", "c", "d"} {
		w.step(func() { w.ok(w.create(name, "1")) })
	}
	check("nothing undone", 4, 3, 2, 1)
	w.undo(2)
	check("two undone", -4, -3, 2, 1)
	w.undo(1)
	check("three undone", -4, -3, -2, 1)
	w.redo(1)
	check("one redone", -4, -3, 2, 1)
	w.close()
	w = newWorld(t, w.base, w.opts)
	check("opened again", -4, -3, 2, 1)
	w.ok(os.WriteFile(filepath.Join(w.base, "work", "c"), []byte("edited outside"), 0o644))
	if _, err := w.log.Redo(t.Context(), UndoOptions{Count: 2, DryRun: true}); !errors.As(err, new(*BarrierError)) {
		t.Errorf("a trial of the redo: %v", err)
	}
	check("edited outside", -4, -3, 2, 1)
	w.ok(os.Remove(filepath.Join(w.base, "work", "c")))
	w.undo(2)
	check("all undone", -4, -3, -2, -1)
	w.redo(1)
	w.step(func() { w.ok(w.create("e", "1")) })
	check("something new was run", 5, 1)
}
