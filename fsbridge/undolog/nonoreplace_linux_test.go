package undolog

import (
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestU11NoRenameNoReplace goes back and forth where the file system knows no renameat2 with flags.
func TestU11NoRenameNoReplace(t *testing.T) {
	for _, kind := range []filesystems.Kind{filesystems.Bindfs, filesystems.NTFS} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, filesystems.Mount(t, kind, nil), Options{})
			t.Cleanup(w.close)
			w.step(func() {
				w.ok(w.mkdir("a"))
				w.ok(w.create("a/1", "one"))
				w.ok(w.create("f", "f"))
				w.ok(w.mkdir("e"))
			})
			before := w.snapshot()
			w.step(func() {
				w.ok(w.unlink("a/1"))
				w.ok(w.rename("a", "b", 0))
				w.ok(w.create("b/2", "two"))
				w.ok(w.rename("b/2", "f", 0))
				w.ok(w.rmdir("e"))
			})
			after := w.snapshot()
			w.undo(1)
			treesnap.Same(t, "undo", before, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "redo", after, w.snapshot())
			w.undo(1)
			treesnap.Same(t, "undo again", before, w.snapshot())
			w.begin(77) // a step that is interrupted
			w.ok(w.unlink("f"))
			w.ok(w.log.Close())
			w.openLog()
			if _, err := w.log.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			treesnap.Same(t, "recovery", before, w.snapshot())
			if left, err := hostfs.ReadDirAt(w.log.at.Wal); err != nil || len(left) > 0 {
				t.Errorf("in wal: %v %v", left, err)
			}
		})
	}
}
