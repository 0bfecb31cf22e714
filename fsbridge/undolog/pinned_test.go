package undolog

import (
	"context"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestCompressBesideOpenStep: the open step writes to a file that an older step
// removed, by a handle that is closed then. Its records put the bytes back into
// that inode, which therefore stays as it is.
func TestCompressBesideOpenStep(t *testing.T) {
	for name, end := range map[string]func(w *world) error{
		"undone":      func(w *world) error { w.commit(); w.undo(1); return nil },
		"rolled back": func(w *world) error { _, err := w.log.Abort(context.Background()); return err },
		"recovered":   func(w *world) error { _, err := w.log.Recover(context.Background()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.step(func() { w.ok(w.create("f", "before")) })
			before := w.snapshot()
			w.ok(w.hold("f"))
			w.step(func() { w.ok(w.unlink("f")) })
			w.begin(w.log.NextID(TypeAPI))
			w.ok(w.poke(0, 2, "!!!!!"))
			w.ok(w.held[0].Close())
			w.held = nil
			if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
				t.Fatal(err)
			}
			w.ok(end(w))
			w.undo(1)
			treesnap.Same(t, "before it was removed", before, w.snapshot())
		})
	}
}
