package undolog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestSignAfterFailedCommit: a step that could not be closed is open still, with its sign of life: without one, what it wrote would be somebody else's if it
// was killed now.
func TestSignAfterFailedCommit(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	before := w.snapshot()
	id := w.log.NextID(TypeCommand)
	w.begin(id)
	w.ok(w.create("f", "inside"))
	inTheWay := filepath.Join(w.base, "undo", "steps", store.FormatStepID(id), "x")
	w.ok(os.MkdirAll(inTheWay, 0o700))
	w.NewEpoch()
	if e, err := w.log.Commit(t.Context(), StepResult{Status: "completed"}); err == nil {
		t.Fatalf("committed over what was there: %+v", e)
	}
	signs, err := filepath.Glob(filepath.Join(w.base, "undo", "wal", "*", store.AliveName))
	if err != nil || len(signs) != 1 {
		t.Errorf("signs of life: %q, %v", signs, err)
	}
	w.ok(os.RemoveAll(filepath.Dir(inTheWay)))
	w.ok(w.create("g", "later"))
	w.commit()
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
}
