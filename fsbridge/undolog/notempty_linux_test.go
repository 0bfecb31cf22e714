package undolog

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestNotEmpty: a directory that could not be removed or replaced, because it is
// not empty, is still the same with all that is in it, wherever it goes then.
func TestNotEmpty(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		base, undo := "", ""
		if elsewhere {
			base, undo = twoFileSystems(t)
		} else {
			base = testDir(t)
		}
		w := newWorld(t, base, Options{Dir: undo})
		w.step(func() {
			w.ok(w.mkdir("d"))
			w.ok(w.create("d/f", "in it"))
			w.ok(w.mkdir("e"))
			w.ok(w.mkdir("gone"))
		})
		before := w.snapshot()
		w.step(func() {
			w.ok(w.rmdir("gone")) // tells the log where it can keep things
			if err := w.rmdir("d"); !errors.Is(err, unix.ENOTEMPTY) {
				t.Fatalf("rmdir: %v", err)
			}
			if err := w.rename("e", "d", 0); !errors.Is(err, unix.ENOTEMPTY) {
				t.Fatalf("rename: %v", err)
			}
			w.ok(w.rename("d", "e", unix.RENAME_EXCHANGE))
		})
		after := w.snapshot()
		w.undo(1)
		treesnap.Same(t, "undone", before, w.snapshot())
		w.redo(1)
		treesnap.Same(t, "redone", after, w.snapshot())
		w.close()
	}
}
