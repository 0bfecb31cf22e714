package undolog

import (
	"context"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/capture"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// second is another open step of a world's host, with an epoch of its own.
type second struct {
	w *world
	s *capture.Step
}

func (w *world) second(name string) *second {
	w.t.Helper()
	id := w.log.NextID(TypeAPI)
	return &second{w, w.log.host.Begin(name, id, StepInfo{Type: TypeAPI}, observer{w.log.stamps.NewEdits()})}
}

// apart is by how much the other step's epochs are ahead.
const apart = 1000

// as runs f while what the world does is part of the other step.
func (x *second) as(f func()) {
	mine := x.w.log.cur.Swap(x.s)
	x.w.ahead = apart
	f()
	x.w.log.cur.Store(mine)
	x.w.ahead = 0
}

// close closes the step as Commit does.
func (x *second) close() *Entry {
	x.w.t.Helper()
	mine := x.w.log.cur.Swap(x.s)
	e, err := x.w.log.Commit(context.Background(), StepResult{Status: "completed"})
	x.w.log.cur.Store(mine)
	x.w.ok(err)
	return e
}

// TestTwoSteps: two steps are open at once, take turns and both close. Each keeps
// what was there at its own first touch, whatever the marks of the other say.
func TestTwoSteps(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() {
		w.ok(w.create("both", strings.Repeat("before", 1<<16))) // captured in parts
		w.ok(w.create("one", "1"))
		w.ok(w.create("two", "2"))
		w.ok(w.mkdir("d"))
	})
	before := w.snapshot()
	w.begin(w.log.NextID(TypeAPI))
	other := w.second("in_progress.2")
	one, two := w.Guard.Epoch(), w.Guard.Epoch()+apart

	o := w.regular("both")
	covered := func(epoch uint64, off int64) bool {
		op := &fsbridge.Op{Kind: fsbridge.OpWrite, Node: o, Off: off, Len: 1}
		s := w.log.cur.Load()
		return s.Protected(epoch, op)
	}
	w.ok(w.write("both", 0, "x"))
	w.ok(w.create("d/old", "old"))
	if !covered(one, 0) {
		t.Error("not captured")
	}
	other.as(func() {
		if covered(two, 0) {
			t.Error("the mark of one step counts for the other")
		}
		w.ok(w.write("both", 1<<18, "y"))
		if !covered(two, 1<<18) {
			t.Error("not captured")
		}
		w.ok(w.unlink("two"))
		w.ok(w.create("d/new", "new"))
	})
	w.ok(w.write("both", 0, "z")) // its mark is replaced; its records are not
	w.ok(w.unlink("one"))

	second := other.close()
	first := w.commit()
	if first.Seq >= second.Seq {
		t.Errorf("seqs %d and %d: the first capture was the other's", first.Seq, second.Seq)
	}
	list := w.log.stepEntries()
	if n := len(list); n != 3 || list[1].StepID != first.StepID || list[2].StepID != second.StepID {
		t.Errorf("%d steps, the newest %d", n, list[n-1].StepID)
	}
	for _, e := range []*Entry{first, second} {
		if e.AffectedCount != 3 {
			t.Errorf("step %d: %v", e.StepID, e.AffectedPaths)
		}
	}
	w.undo(2)
	treesnap.Same(t, "undone", before, w.snapshot())
	w.ok(w.log.Close())
	w.openLog()
	w.redo(2)
	w.undo(2)
	treesnap.Same(t, "undone again", before, w.snapshot())
}

// TestTwoStepsRetained: what one open step has retained is found by the other.
func TestTwoStepsRetained(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("f", "before")) })
	before := w.snapshot()
	w.begin(w.log.NextID(TypeAPI))
	other := w.second("in_progress.2")
	w.ok(w.hold("f"))
	h := w.held[0]
	w.ok(w.unlink("f"))
	other.as(func() { w.ok(h.WriteAt([]byte("after"), 0)) })
	first := w.commit()
	second := w.records(other.close())
	if len(second.Objects) != 2 || second.Objects[2].RetainedSeq != first.Seq || second.Objects[2].RetainedObj != 2 {
		t.Errorf("seq %d retained it; %+v", first.Seq, second.Objects[2])
	}
	w.undo(2)
	treesnap.Same(t, "undone", before, w.snapshot())
}

// records reads the journal of a closed step.
func (w *world) records(e *Entry) *format.RecordSet {
	w.t.Helper()
	dir, err := w.log.openStepEntry(&stepEntry{Entry: *e, name: store.FormatStepID(e.StepID)})
	w.ok(err)
	defer dir.Close()
	rec, err := format.ReadJournal(dir.FD)
	w.ok(err)
	return rec
}

// TestTwoStepsFreed: the number of an inode that one step let go is another's, and
// the other step sees it made.
func TestTwoStepsFreed(t *testing.T) {
	base, undo := twoFileSystems(t)
	w := newWorld(t, base, Options{Dir: undo})
	defer w.close()
	w.step(func() { w.ok(w.create("f", "before")) })
	w.begin(w.log.NextID(TypeAPI))
	other := w.second("in_progress.2")
	id := w.regular("f").ID
	w.ok(w.unlink("f"))
	other.as(func() {
		w.ok(w.create("g", ""))
		// As if there were another file that has the number.
		w.log.Done(w.Guard.Epoch()+apart, &fsbridge.Op{Kind: fsbridge.OpTmpfile, Dir: w.object(".")},
			&fsbridge.Object{ID: id, Type: posix.S_IFREG}, nil)
	})
	other.close()
	if rec := w.records(w.commit()); len(rec.Freed) != 1 || len(rec.Gone) != 1 {
		t.Errorf("freed %v, gone %v", rec.Freed, rec.Gone)
	}
	if w.regular("g") == nil {
		t.Error("the other step's file is not there")
	}
}
