package undolog

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// crashed ends w without closing the open step, and opens the log again.
func crashed(w *world) {
	w.log.takeOpen()
	w.ok(w.log.Close())
	w.openLog()
	w.Forget()
}

func recovered(t *testing.T, w *world) *Recovery {
	t.Helper()
	r, err := w.log.Recover(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w.Forget()
	return r
}

// TestCR01 kills in the middle of a step (and CR-06: a second recovery does
// nothing).
func TestCR01CR06CrashMidStep(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("a", "one")); w.ok(w.mkdir("d")) })
	before := w.snapshot()
	w.begin(w.log.NextID(TypeCommand))
	w.ok(w.write("a", 0, "two"))
	w.ok(w.rename("a", "d/a", 0))
	w.ok(w.create("b", "new"))
	crashed(w)
	if err := w.log.Begin(w.log.NextID(TypeCommand), StepInfo{Type: TypeCommand}); !errors.Is(err, ErrBusy) {
		t.Fatalf("begin before recovery: %v", err)
	}
	r := recovered(t, w)
	if r == nil || r.StepID != 2 || r.Restored == 0 {
		t.Fatalf("%+v", r)
	}
	treesnap.Same(t, "recovered", before, w.snapshot())
	if r := recovered(t, w); r != nil {
		t.Fatalf("second recovery: %+v", r)
	}
	w.undo(1)
}

// TestCR04 cuts the journal of the open step at every length: what precedes
// the cut was done, so the crash is simulated by stopping there.
func TestCR04TruncatedJournal(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("a", "one")) })
	before := w.snapshot()
	w.begin(w.log.NextID(TypeCommand))
	w.ok(w.write("a", 0, "two"))
	journal := w.base + "/undo/wal/in_progress/journal"
	end := w.log.cur.Load().Journal().Size()
	crashed(w)
	f, err := os.OpenFile(journal, os.O_WRONLY, 0)
	w.ok(err)
	_, err = f.WriteAt([]byte{200, 0, 0, 0, 1, 2, 3, 4, 5}, end) // a record that was being written
	w.ok(err)
	w.ok(f.Close())
	r := recovered(t, w)
	if r == nil || len(r.Problems) == 0 {
		t.Fatalf("the damage is not reported: %+v", r)
	}
	treesnap.Same(t, "recovered", before, w.snapshot())
}

// TestCR05CR07 shuts down cleanly, and crashes with an empty step.
func TestCR05CR07NothingToRecover(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("a", "one")) })
	before := w.snapshot()
	w.ok(w.log.Close())
	w.openLog()
	if r := recovered(t, w); r != nil {
		t.Fatalf("after a clean end: %+v", r)
	}
	w.begin(w.log.NextID(TypeCommand))
	crashed(w)
	if r := recovered(t, w); r != nil && r.Restored != 0 {
		t.Fatalf("empty step: %+v", r)
	}
	treesnap.Same(t, "recovered", before, w.snapshot())
}
