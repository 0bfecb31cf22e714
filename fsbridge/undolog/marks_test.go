package undolog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// A mark leads back to where it was set, and forward again; it survives a restart, and
// says why it is lost.
func TestMarks(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Limits: Limits{StepCount: 3}}})
	defer func() { w.close() }()
	fails := func(kind taskKind, to, text string) {
		t.Helper()
		if _, err := w.travelGroup(kind, UndoOptions{To: to}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s --to %s: %v", kind, to, err)
		}
	}
	w.ok(w.log.Mark("empty"))
	w.step(func() { w.ok(w.create("a", "1")) })
	w.ok(w.log.Mark("one"))
	fails(taskUndo, "one", "nothing was changed since")
	fails(taskUndo, "none", "none has the name none")
	one := w.snapshot()
	w.step(func() { w.ok(w.create("b", "2")) })
	w.step(func() { w.ok(w.unlink("a")) })
	three := w.snapshot()
	w.close()
	w = newWorld(t, w.base, w.opts)
	if err := w.log.Mark("one"); !errors.Is(err, ErrMark) {
		t.Errorf("a second one: %v", err)
	}
	if res, err := w.travelGroup(taskUndo, UndoOptions{To: "one", DryRun: true}); err != nil || len(res.Steps) != 2 {
		t.Errorf("a trial: %+v, %v", res, err)
	}
	if _, err := w.travelGroup(taskUndo, UndoOptions{To: "one"}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "at one", one, w.snapshot())
	w.undo(1)
	fails(taskUndo, "one", "'sandbox redo --to one'")
	if _, err := w.travelGroup(taskRedo, UndoOptions{To: "one"}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "at one again", one, w.snapshot())
	w.redo(2)
	treesnap.Same(t, "done again", three, w.snapshot())
	w.step(func() { w.ok(w.create("c", "3")) }) // pushes the first step out
	fails(taskUndo, "empty", "pushed out of the history")
	w.ok(w.log.Mark("late"))
	w.undo(1)
	w.step(func() { w.ok(w.create("d", "4")) })
	fails(taskUndo, "late", "something new was run")
	if _, err := w.travelGroup(taskUndo, UndoOptions{To: "one"}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "at one at last", one, w.snapshot())
	w.ok(w.log.Unmark("one"))
	fails(taskRedo, "one", "none has the name one")
	if _, err := w.log.GC(context.Background(), GCOptions{Discard: true}); err != nil || len(w.log.Marks()) != 0 {
		t.Errorf("%v, %v", w.log.Marks(), err)
	}
}

func TestMarkLimits(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	for _, bad := range []string{"", "-x", "a b", "\x1b[2J", strings.Repeat("x", 65), "\xff"} {
		if err := w.log.Mark(bad); !errors.Is(err, ErrMark) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for i := range 256 {
		w.ok(w.log.Mark(fmt.Sprint(i)))
	}
	if err := w.log.Mark("more"); !errors.Is(err, ErrMark) {
		t.Errorf("more: %v", err)
	}
	w.log.Close()
	if err := os.WriteFile(w.base+"/undo/marks", []byte(`[{"name":"a b"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.openLog()
	if got := w.log.Marks(); len(got) != 0 {
		t.Errorf("damaged marks: %v", got)
	}
	w.ok(w.log.Mark("new"))
}
