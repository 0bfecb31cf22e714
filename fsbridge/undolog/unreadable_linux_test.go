package undolog

import (
	"context"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestAttributesOfUnreadableFile: who is not root sees no user attributes of a
// file that denies reading, but they are there. They must be captured, must
// come back, and must go where there were none.
func TestAttributesOfUnreadableFile(t *testing.T) {
	const none, open = 0, 0o700
	for kind, create := range map[string]func(w *world, p string) error{
		"file": func(w *world, p string) error { return w.create(p, "text") }, "directory": (*world).mkdir,
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.step(func() { w.ok(create(w, "p")); w.ok(w.chmod("p", open)) })
			plain := w.snapshot()
			w.step(func() { w.ok(w.setxattr("p", "user.a", "5")) })
			marked := w.snapshot()
			closed := func() { w.step(func() { w.ok(w.chmod("p", none)) }) }

			// Captured while nobody can read them: undoing keeps them.
			closed()
			w.step(func() { w.ok(w.chmod("p", open)) })
			w.undo(1)
			w.step(func() { w.ok(w.chmod("p", open)) })
			treesnap.Same(t, "opened after an undo", marked, w.snapshot())

			// Removed while nobody can read them.
			w.undo(2)
			w.step(func() { w.ok(w.setxattr("p", "user.a", "6")); w.ok(w.chmod("p", none)) })
			w.undo(1)
			treesnap.Same(t, "changed, closed and undone", marked, w.snapshot())
			w.redo(1)
			if kind == "file" {
				w.restore("p", 1)
				treesnap.Same(t, "restored", plain, w.snapshot())
				w.undo(1)
			}

			// Adopted, compressed and back.
			w.step(func() {
				if w.unlink("p") != nil {
					w.ok(w.rmdir("p"))
				}
			})
			if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
				t.Fatal(err)
			}
			w.undo(2)
			treesnap.Same(t, "removed, compressed and undone", marked, w.snapshot())
		})
	}
}

// TestCompressUnsearchable: an adopted directory that may be listed but not
// searched stays as it is, and does not keep the rest from being compressed.
func TestCompressUnsearchable(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.mkdir("d")); w.ok(w.mkdir("d/e")); w.ok(w.chmod("d", 0o400)) })
	w.step(func() { w.ok(w.create("f", "other")) })
	before := w.snapshot()
	w.restore("d", 0)
	if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
}
