//go:build linux

package mediate

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// stepsWork does in each step what the test says.
func stepsWork(w *workload) {
	kept := -1
	for {
		switch w.hear() {
		case "semantics":
			out := os.Stdout
			os.Stdout, _ = os.OpenFile("/dev/null", os.O_WRONLY, 0)
			semantics(w)
			os.Stdout = out
		case "keep":
			kept, _ = unix.Open("kept", unix.O_WRONLY, 0)
			_, _ = unix.Write(kept, []byte("first"))
		case "write":
			_, _ = unix.Write(kept, []byte("later"))
		default:
			return
		}
		w.say("done")
	}
}

// TestMBUndo does all that TestMBSemantics does as one step of a real log, and writes
// in later steps to a descriptor that was granted before.
func TestMBUndo(t *testing.T) { undoSemantics(t, 0) }

func TestMBUndoUser(t *testing.T) {
	if require.AsUser(t) {
		undoSemantics(t, 0)
	}
}

func TestMBUndoMapped(t *testing.T) {
	require.Root(t)
	undoSemantics(t, 61000)
}

func undoSemantics(t *testing.T, uid int) {
	j := newJail(t)
	j.uid, j.undo = uid, filepath.Join(j.base, "undo")
	for _, d := range []string{"d", "rd/sub", "kd", "ad"} {
		check(t, os.MkdirAll(filepath.Join(j.folder, d), 0o755))
	}
	for _, f := range []string{"f", "r1", "a", "d/at", "plain", "kept"} {
		put(filepath.Join(j.folder, f), "of before: "+f)
	}
	check(t, os.Link(filepath.Join(j.folder, "a"), filepath.Join(j.folder, "b")))
	if uid != 0 {
		check(t, os.Chown(j.out, uid, uid))
	}
	in := j.start("steps")
	ctx := t.Context()
	states := []*treesnap.Snapshot{treesnap.MustTake(t, j.folder)}
	for _, step := range []string{"semantics", "keep", "write"} {
		_, err := j.session.Step(ctx, step, func() error {
			in.say(step)
			if got := in.hear(); got != "done" {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		check(t, err)
		states = append(states, treesnap.MustTake(t, j.folder))
	}
	same := treesnap.Options{IgnoreLinks: true}
	last := len(states) - 1
	for i := last - 1; i >= 0; i-- {
		check(t, j.session.Undo(ctx, 1))
		if !treesnap.AssertEqual(t, states[i], treesnap.MustTake(t, j.folder), same) {
			t.Fatalf("after %d were undone", last-i)
		}
	}
	for i := 1; i <= last; i++ {
		check(t, j.session.Redo(ctx, 1))
		if !treesnap.AssertEqual(t, states[i], treesnap.MustTake(t, j.folder), same) {
			t.Fatalf("after %d were done again", i)
		}
	}
	in.say("end")
	in.ok()
}
