package undolog

import (
	"os"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestNameIsRemovedBeforeStamps: the log's own name of a file is removed between
// the end of a step, which retained another name of it, and its stamps.
func TestNameIsRemovedBeforeStamps(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	before := w.snapshot()
	blob := w.base + "/blob" // as in a step that was dropped
	w.step(func() {
		w.ok(w.create("f", "before"))
		w.ok(w.link("f", "g"))
		w.ok(os.Link(w.base+"/work/f", blob))
	})
	w.begin(w.log.NextID(TypeAPI))
	w.ok(w.unlink("g"))
	s := w.log.cur.Load()
	closed, err := s.Close(StepResult{})
	w.ok(err)
	e := &stepEntry{Entry: *closed, name: store.FormatStepID(closed.StepID)}
	w.log.stamps.SetApplying(true)
	w.log.known.change(func(k *lists) { *k = lists{steps: append(k.steps, e)} })
	w.log.cur.Store(nil)
	w.log.stamps.Mu.Lock()
	done := make(chan error)
	go func() { done <- w.log.committed(e, s.Strays) }()
	time.Sleep(50 * time.Millisecond)
	err = os.Remove(blob)
	w.log.stamps.Mu.Unlock()
	w.ok(err)
	w.ok(<-done)
	s.Release()
	w.undo(2)
	treesnap.Same(t, "undone", before, w.snapshot())
}
