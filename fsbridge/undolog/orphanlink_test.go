package undolog

import (
	"context"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestNameForOpenFile: a step writes by a handle to a file of which the bridge
// knows no name, and gives it another name. The undo takes that name away and
// puts the content back into the file that stays.
func TestNameForOpenFile(t *testing.T) {
	check := func(t *testing.T, w *world) {
		w.step(func() { w.ok(w.mkdir("d")); w.ok(w.create("d/a", "before")) })
		w.ok(w.hold("d/a"))
		w.step(func() { w.ok(w.create("x", "")) })
		w.undo(1)
		before := w.snapshot()
		change := func() { w.ok(w.poke(0, 2, "!!!!!")); w.ok(w.link("d/a", "b")) }
		w.step(change)
		after := w.snapshot()
		for range 2 {
			w.undo(1)
			treesnap.Same(t, "undone", before, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "redone", after, w.snapshot())
		}
		w.undo(1)
		w.begin(w.log.NextID(TypeAPI))
		change()
		if _, err := w.log.Abort(context.Background()); err != nil {
			t.Fatal(err)
		}
		treesnap.Same(t, "rolled back", before, w.snapshot())
	}
	bothPlaces(t, check)
}
