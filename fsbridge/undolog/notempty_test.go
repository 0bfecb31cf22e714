package undolog

import (
	"errors"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestNotEmpty: a directory that could not be removed or replaced, because it is
// not empty, is still the same with all that is in it, wherever it goes then.
func TestNotEmpty(t *testing.T) {
	bothPlaces(t, func(t *testing.T, w *world) {
		w.step(func() {
			w.ok(w.mkdir("d"))
			w.ok(w.create("d/f", "in it"))
			w.ok(w.mkdir("e"))
			w.ok(w.mkdir("gone"))
		})
		before := w.snapshot()
		w.step(func() {
			w.ok(w.rmdir("gone")) // tells the log where it can keep things
			if err := w.rmdir("d"); !errors.Is(err, posix.ENOTEMPTY) {
				t.Fatalf("rmdir: %v", err)
			}
			if err := w.rename("e", "d", 0); !errors.Is(err, posix.ENOTEMPTY) {
				t.Fatalf("rename: %v", err)
			}
			w.ok(w.rename("d", "e", posix.RENAME_EXCHANGE))
		})
		after := w.snapshot()
		w.undo(1)
		treesnap.Same(t, "undone", before, w.snapshot())
		w.redo(1)
		treesnap.Same(t, "redone", after, w.snapshot())
	})
}
