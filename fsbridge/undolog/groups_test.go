package undolog

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// grouped runs f in a step of a group, which only its end knows.
func (w *world) grouped(group StepID, f func()) *Entry {
	w.t.Helper()
	w.begin(w.log.NextID(TypeCommand))
	f()
	w.NewEpoch()
	e, err := w.log.Commit(context.Background(), StepResult{Status: "completed", Group: group})
	if err != nil {
		w.t.Fatalf("commit: %v", err)
	}
	return e
}

// travelGroup undoes or redoes a group.
func (w *world) travelGroup(kind taskKind, o UndoOptions) (*ApplyResult, error) {
	w.t.Helper()
	w.NewEpoch()
	defer w.Forget()
	if kind == taskRedo {
		return w.log.Redo(context.Background(), o)
	}
	return w.log.Undo(context.Background(), o)
}

func TestGroupRefusals(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Limits: Limits{StepCount: 4}}})
	defer w.close()
	refused := func(o UndoOptions, want error, text string) {
		t.Helper()
		before := w.snapshot()
		if _, err := w.travelGroup(taskUndo, o); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", o, err)
		}
		treesnap.Same(t, "refused", before, w.snapshot())
	}
	refused(UndoOptions{Group: NewestGroup}, ErrNothing, "nothing to undo")
	w.step(func() { w.ok(w.create("alone", "")) })
	refused(UndoOptions{Group: NewestGroup}, ErrNothing, "is of no agent's run")
	refused(UndoOptions{Group: 7}, ErrNoStep, "no step of run 7")
	w.grouped(7, func() { w.ok(w.create("a", "")) })
	w.grouped(7, func() { w.ok(w.create("b", "")) })
	w.step(func() { w.ok(w.create("after", "")) })
	refused(UndoOptions{Group: 7}, ErrGroup, "1 step(s) come before")
	refused(UndoOptions{Group: 7, DryRun: true}, ErrGroup, "'sandbox undo 1'")
	w.undo(1)
	for range 3 { // pushes the beginning out
		w.grouped(7, func() {
			w.ok(w.create("more", ""))
			w.ok(w.unlink("more"))
			w.ok(w.chmod("a", 0o600))
			w.ok(w.create("z", ""))
			w.ok(w.unlink("z"))
		})
		w.grouped(7, func() { w.ok(w.chmod("a", 0o644)) })
	}
	refused(UndoOptions{Group: NewestGroup}, ErrGroup, "pushed out of the history; 'sandbox undo 4'")
}

// A run goes on after its first steps were undone one by one: what it does then is all that there is of it.
func TestGroupBeganAnew(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("before", "")) })
	want := w.snapshot()
	w.grouped(7, func() { w.ok(w.create("a", "")) })
	w.undo(1)
	for _, name := range []string{"b", "c"} {
		w.grouped(7, func() { w.ok(w.create(name, "")) })
	}
	if res, err := w.travelGroup(taskUndo, UndoOptions{Group: 7}); err != nil || len(res.Steps) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	treesnap.Same(t, "undone", want, w.snapshot())
}

// What a group's undo cannot do it does not begin: an edit from outside at the file of its
// oldest step stops it before anything is changed.
func TestGroupBarrier(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	for _, name := range []string{"a", "b", "c"} {
		w.grouped(1, func() { w.ok(w.create(name, "inside")) })
	}
	if err := os.WriteFile(w.base+"/work/a", []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		var barrier *BarrierError
		if _, err := w.travelGroup(taskUndo, UndoOptions{Group: 1, DryRun: dry}); !errors.As(err, &barrier) {
			t.Fatalf("dry %v: %v", dry, err)
		}
	}
	if st := w.log.Status(); st.Steps != 3 || st.Redoable != 0 {
		t.Fatalf("%+v", st)
	}
	res, err := w.travelGroup(taskUndo, UndoOptions{Group: 1, DryRun: true, Force: true})
	if err != nil || len(res.Steps) != 3 || res.PathCount != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
	res, err = w.travelGroup(taskUndo, UndoOptions{Group: 1, Force: true})
	if err != nil || len(res.Steps) != 3 || len(res.Warnings) == 0 || len(w.snapshot().Entries) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// TestModelGroups undoes and redoes single steps and groups in any order, and compares the
// folder with what it was.
func TestModelGroups(t *testing.T) {
	base := testDir(t)
	rapid.Check(t, func(t *rapid.T) {
		defer removeForTest(base + "/work")
		defer removeForTest(base + "/undo")
		w := newWorld(t, base, Options{Settings: Settings{Limits: Limits{StepCount: -1}}})
		defer func() { w.close() }()
		m := groupModel{snaps: []*treesnap.Snapshot{w.snapshot()}}
		for range rapid.IntRange(1, 14).Draw(t, "turns") {
			m.turn(t, w)
		}
	})
}

type groupModel struct {
	groups []StepID             // of the steps, undone ones too
	snaps  []*treesnap.Snapshot // before each step, and after the last one
	at     int                  // steps that are done
	newest StepID
}

func (m *groupModel) turn(t *rapid.T, w *world) {
	switch kind := rapid.SampledFrom([]string{"step", "piece", "run", "undo", "redo", "undo group", "redo group", "restart"}).Draw(t, "turn"); kind {
	case "step", "piece", "run":
		group := StepID(0)
		if kind == "run" {
			m.newest += 100
		}
		if kind != "step" {
			group = m.newest
		}
		if e := w.grouped(group, func() {
			for range rapid.IntRange(1, 8).Draw(t, "ops") {
				randomOp(t, w)
			}
		}); e != nil {
			m.groups, m.snaps = append(m.groups[:m.at], group), append(m.snaps[:m.at+1], w.snapshot())
			m.at++
		}
	case "undo":
		if m.at > 0 {
			w.undo(1)
			m.at--
		}
	case "redo":
		if m.at < len(m.groups) {
			w.redo(1)
			m.at++
		}
	case "undo group", "redo group":
		m.travel(t, w, taskKind(strings.Fields(kind)[0]))
	case "restart":
		m.newest += 100 // no group goes on
		w.close()
		*w = *newWorld(t, w.base, w.opts)
	}
	if got := len(w.log.stepEntries()); got != m.at {
		t.Fatalf("%d steps are done, want %d", got, m.at)
	}
	treesnap.Same(t, "", m.snaps[m.at], w.snapshot())
}

func (m *groupModel) travel(t *rapid.T, w *world, kind taskKind) {
	next, by := m.at-1, -1
	if kind == taskRedo {
		next, by = m.at, 1
	}
	_, err := w.travelGroup(kind, UndoOptions{Group: NewestGroup})
	if next < 0 || next >= len(m.groups) || m.groups[next] == 0 {
		if !errors.Is(err, ErrNothing) && !errors.Is(err, ErrNoRedo) {
			t.Fatalf("%s of nothing: %v", kind, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	last := next
	for i := next; i >= 0 && i < len(m.groups); i += by {
		if m.groups[i] == m.groups[next] {
			last = i
		}
	}
	if m.at = last; kind == taskRedo {
		m.at++
	}
}

// FuzzTogether feeds the file "together" to its decoder.
func FuzzTogether(f *testing.F) {
	f.Add([]byte(`{"kind":"undo","names":["3","2","-1"],"back":true}`))
	f.Add([]byte(`{"kind":"abort","names":["../x"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTogether(b)
		if err == nil && strings.ContainsAny(strings.Join(got.Names, ""), "/.") {
			t.Errorf("%q", got.Names)
		}
	})
}
