//go:build faults

package undolog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestCR02 fails the write of a preimage: the operation fails, and nothing of
// it was done.
func TestCR02PreimageWriteFails(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("a", "one")) })
	w.begin(w.log.NextID(TypeCommand))
	w.ok(w.create("b", "other"))
	between := w.snapshot()
	w.ok(fault.Arm("err:journal.append:1:EIO"))
	err := w.write("a", 0, "two")
	w.ok(fault.Arm(""))
	if !errors.Is(err, posix.EIO) {
		t.Fatalf("write: %v", err)
	}
	treesnap.Same(t, "after the failure", between, w.snapshot())
	w.ok(w.write("a", 0, "two"))
	w.commit()
	w.undo(1)
}

// TestCR03 fails the promotion of a step: it stays open, and a restart rolls
// it back.
func TestCR03StepPromotionFails(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("a", "one")) })
	before := w.snapshot()
	w.begin(w.log.NextID(TypeCommand))
	w.ok(w.write("a", 0, "two"))
	w.ok(fault.Arm("err:commit.rename:1:EIO"))
	_, err := w.log.Commit(context.Background(), StepResult{})
	w.ok(fault.Arm(""))
	if !errors.Is(err, posix.EIO) {
		t.Fatalf("commit: %v", err)
	}
	crashed(w)
	if r := recovered(t, w); r == nil || r.StepID != 2 {
		t.Fatalf("%+v", r)
	}
	treesnap.Same(t, "recovered", before, w.snapshot())
}

// TestFailedUndo fails an undo in the middle; asking again finishes it, and
// undoes no more than was asked for.
func TestFailedUndoIsFinished(t *testing.T) {
	for _, point := range []string{"apply.detach", "apply.attach", "apply.content", "apply.meta", "rollback.moved"} {
		w := newWorld(t, testDir(t), Options{})
		w.step(func() { uneventful(w) })
		before := w.snapshot()
		w.step(func() { eventful(w) })
		failUndo(t, w, point)
		w.undo(1)
		treesnap.Same(t, point, before, w.snapshot())
		w.close()
	}
}

// failUndo has an undo of one step fail at point.
func failUndo(t *testing.T, w *world, point string) {
	t.Helper()
	w.ok(fault.Arm("err:" + point + ":1:EIO"))
	_, err := w.log.Undo(context.Background(), UndoOptions{})
	w.ok(fault.Arm(""))
	if !errors.Is(err, posix.EIO) {
		t.Fatalf("%s: %v", point, err)
	}
}

// TestInterruptedUndoIsKept: neither a limit nor a gc takes away the step that an
// interrupted undo is undoing.
func TestInterruptedUndoIsKept(t *testing.T) {
	for _, point := range []string{"apply.detach", "apply.attach", "apply.content", "apply.meta", "rollback.finish"} {
		now := time.Unix(1_000_000, 0)
		w := newWorld(t, testDir(t), Options{Now: func() time.Time { return now }})
		w.step(func() { uneventful(w) })
		before := w.snapshot()
		w.step(func() { eventful(w) })
		failUndo(t, w, point)
		if _, err := w.log.GC(context.Background(), GCOptions{Discard: true}); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: discard: %v", point, err)
		}
		w.opts.Age = time.Hour
		now = now.Add(2 * time.Hour)
		crashed(w)
		if r := recovered(t, w); r == nil || !r.CompletedRollback {
			t.Fatalf("%s: %+v", point, r)
		}
		treesnap.Same(t, point, before, w.snapshot())
		w.close()
	}
}

// TestInterruptedUndoIsTold: whatever ends in the middle, and whatever finishes
// what did, tells that everything may have changed.
func TestInterruptedUndoIsTold(t *testing.T) {
	ctx := context.Background()
	for _, point := range []string{"apply.detach", "apply.attach", "apply.content", "apply.meta", "rollback.finish", "rollback.moved"} {
		for what, next := range map[string]func(l *Log) (*ApplyResult, error){
			"undo":    func(l *Log) (*ApplyResult, error) { return l.Undo(ctx, UndoOptions{}) },
			"more":    func(l *Log) (*ApplyResult, error) { return l.Undo(ctx, UndoOptions{Count: 9}) },
			"redo":    func(l *Log) (*ApplyResult, error) { return l.Redo(ctx, UndoOptions{}) },
			"restore": func(l *Log) (*ApplyResult, error) { return l.Restore(ctx, RestoreOptions{Path: "none", Step: 1}) },
			"no such": func(l *Log) (*ApplyResult, error) { return l.Restore(ctx, RestoreOptions{Path: "none", Step: 9}) },
			"abort":   func(l *Log) (*ApplyResult, error) { return l.Abort(ctx) },
		} {
			if !require.Few(t, point+what, 4) {
				continue
			}
			w := newWorld(t, testDir(t), Options{})
			w.step(func() { uneventful(w) })
			w.step(func() { eventful(w) })
			w.ok(fault.Arm("err:" + point + ":2:EIO"))
			res, err := w.log.Undo(ctx, UndoOptions{})
			if err == nil { // it is passed once only
				w.ok(fault.Arm(""))
				w.redo(1)
				w.ok(fault.Arm("err:" + point + ":1:EIO"))
				res, err = w.log.Undo(ctx, UndoOptions{})
			}
			w.ok(fault.Arm(""))
			if !errors.Is(err, posix.EIO) || res == nil || !res.Changes.All {
				t.Fatalf("%s: %+v, %v", point, res, err)
			}
			between := w.snapshot()
			if _, err := w.log.Restore(ctx, RestoreOptions{Path: "none", Step: 1, DryRun: true}); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: restore as a trial: %v", point, err)
			}
			treesnap.Same(t, point+": a trial", between, w.snapshot())
			if res, err := next(w.log); res == nil || !res.Changes.All {
				t.Errorf("%s, %s: %+v, %v", point, what, res, err)
			}
			w.close()
		}
	}
}

// TestInterruptedUndoCrosses: a barrier that an undo went across by force is gone,
// too, where the undo was interrupted in any of its parts.
func TestInterruptedUndoCrosses(t *testing.T) {
	ctx := context.Background()
	for _, point := range []string{"apply.content", "rollback.finish", "rollback.moved", "rollback.end"} {
		s := newSession(t, nil)
		s.outside("f", "before")
		s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "1") })
		s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
		s.outside("f", "mine")
		if err := fault.Arm("err:" + point + ":1:EIO"); err != nil {
			t.Fatal(err)
		}
		_, err := s.log.Undo(ctx, UndoOptions{Force: true})
		if err := fault.Arm(""); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, posix.EIO) {
			t.Fatalf("%s: %v", point, err)
		}
		if _, err := s.log.Recover(ctx); err != nil {
			t.Fatalf("%s: %v", point, err)
		}
		if bars := s.log.barriers(); len(bars) != 0 {
			t.Errorf("%s: barriers are left: %+v", point, bars)
		}
		if _, err := s.log.Undo(ctx, UndoOptions{}); err != nil {
			t.Errorf("%s: the next undo: %v", point, err)
		}
	}
}
