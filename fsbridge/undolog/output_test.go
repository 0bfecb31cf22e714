package undolog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A command's output is there as long as its step is: undone and done again, after a restart, until the step is pushed
// out, the redo is dropped or the history is.
func TestOutput(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Limits: Limits{StepCount: 3}}})
	defer func() { w.close() }()
	keep := func(id StepID, data string) {
		t.Helper()
		w.ok(w.log.KeepOutput(id, CommandOutput{Command: "c", Bytes: int64(len(data)), Data: []byte(data)}))
	}
	is := func(id StepID, want string) {
		t.Helper()
		list, err := w.log.Output(id)
		got := ""
		for _, o := range list {
			got += string(o.Data)
		}
		if err != nil || got != want {
			t.Errorf("step %d has %q, %v; want %q", id, got, err, want)
		}
	}
	gone := func(id StepID) {
		t.Helper()
		if list, err := w.log.Output(id); !errors.Is(err, ErrNoStep) {
			t.Errorf("step %d has %v, %v", id, list, err)
		}
		if _, err := os.Lstat(filepath.Join(w.base, "undo", "output", fmt.Sprint(id))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("of step %d a file is left: %v", id, err)
		}
	}
	first := w.step(func() {
		id, _ := w.log.Current()
		keep(id, "early ")
		w.ok(w.create("a", "1"))
	}).StepID
	keep(first, "late")
	is(first, "early late")
	id := w.log.NextID(TypeCommand)
	w.begin(id)
	keep(id, "nothing changed")
	is(id, "nothing changed")
	if w.commit() != nil {
		t.Fatal("it changed something")
	}
	gone(id)
	keep(id, "too late")
	gone(id)

	second := w.step(func() { w.ok(w.create("b", "2")) }).StepID
	keep(second, "2")
	w.undo(1)
	is(second, "2")
	w.close()
	w = newWorld(t, w.base, w.opts)
	is(second, "2")
	w.redo(1)
	is(second, "2")
	w.undo(1)
	w.step(func() { w.ok(w.create("c", "3")) }) // drops the redo
	gone(second)
	is(first, "early late")
	for i := range 3 {
		w.step(func() { w.ok(w.create(fmt.Sprint("d", i), "4")) })
	}
	gone(first)
	newest := w.log.stepEntries()[2].StepID
	keep(newest, "5")
	if _, err := w.log.GC(context.Background(), GCOptions{Discard: true}); err != nil {
		t.Fatal(err)
	}
	gone(newest)
	w.close()
	if err := w.log.KeepOutput(1, CommandOutput{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// What was kept of a step that a kill has left open goes with the step.
func TestOutputOfOpenStep(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	id := w.log.NextID(TypeCommand)
	w.begin(id)
	w.ok(w.create("a", "1"))
	w.ok(w.log.KeepOutput(id, CommandOutput{Command: "c", Bytes: 1, Data: []byte("x")}))
	w.close() // as a kill would: the step stays open
	w = newWorld(t, w.base, w.opts)
	if _, err := w.log.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.step(func() { w.ok(w.create("b", "1")) })
	if left, err := os.ReadDir(filepath.Join(w.base, "undo", "output")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
