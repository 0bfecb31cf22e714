package undolog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestReusedInStep: a step replaces an empty directory by another one, and makes a directory that gets the number of the one that is gone. What is
// in it is the step's own: the next step finds no edit from outside there, and an undo finds one that is.
func TestReusedInStep(t *testing.T) {
	w := newWorld(t, require.Image(t, "ext4", 64<<20), Options{})
	defer w.close()
	w.step(func() {
		w.ok(w.mkdir("a"))
		w.ok(w.mkdir("b"))
	})
	before := w.snapshot()
	number, made := w.object("b").ID, ""
	w.step(func() {
		w.ok(w.rename("a", "b", 0))
		for i := 0; made == ""; i++ {
			d := fmt.Sprint("d", i)
			w.ok(w.mkdir(d))
			if w.object(d).ID == number {
				made = d
			}
			if i > 200 {
				t.Fatal("ext4 gives no number again")
			}
		}
		w.ok(w.create(made+"/in", "one"))
	})
	w.step(func() { w.ok(w.write(made+"/in", 0, "two")) })
	if b := w.log.barriers(); len(b) > 0 {
		t.Errorf("an edit from outside that was none: %+v", b)
	}
	w.undo(1)
	w.outside(made+"/in", "mine")
	var barrier *BarrierError
	if _, err := w.log.Undo(context.Background(), UndoOptions{}); !errors.As(err, &barrier) {
		t.Fatalf("an undo over an edit: %v", err)
	}
	_, err := w.log.Undo(context.Background(), UndoOptions{Force: true})
	w.ok(err)
	w.Forget()
	treesnap.Same(t, "undone", before, w.snapshot())
}
