package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// frameEnds are where the frames of a stamps file end.
func frameEnds(content []byte) (ends []int) {
	for at := len("undostm1"); at+format.RecordHeaderSize <= len(content); {
		n, _ := format.RecordHeader(content[at:])
		at += format.RecordHeaderSize + int(n)
		ends = append(ends, at)
	}
	return ends
}

// TestU14StampsLost loses the stamps, or a part of them, in every way, and edits what an undo or a redo would
// overwrite: it is never overwritten without force. What the newest step left and nobody edited is undone.
func TestU14StampsLost(t *testing.T) {
	damage := map[string]func(b []byte) []byte{
		"gone":  func([]byte) []byte { return nil },
		"empty": func([]byte) []byte { return []byte{} },
		"magic": func(b []byte) []byte { b[0] ^= 1; return b },
		"flip":  func(b []byte) []byte { b[frameEnds(b)[0]-1] ^= 1; return b },
		"half":  func(b []byte) []byte { return b[:len(b)/2] },
		"first": func(b []byte) []byte { return b[:frameEnds(b)[0]] },
	}
	for how, f := range damage {
		for _, edited := range []string{"old", "new", "both", "undone", ""} {
			t.Run(how+"/"+edited, func(t *testing.T) { loseStamps(t, f, edited) })
		}
	}
}

func loseStamps(t *testing.T, damage func([]byte) []byte, edited string) {
	w := newWorld(t, testDir(t), Options{})
	t.Cleanup(func() { w.close() })
	w.step(func() { w.ok(w.create("old", "1")); w.ok(w.create("both", "1")) })
	w.step(func() { w.ok(w.write("both", 0, "2")); w.ok(w.create("new", "2")) })
	w.step(func() { w.ok(w.create("undone", "3")) })
	w.undo(1)
	w.ok(w.log.Close())
	file := filepath.Join(w.base, "undo", "stamps")
	content, err := os.ReadFile(file)
	w.ok(err)
	w.ok(os.Remove(file))
	if content = damage(content); content != nil {
		w.ok(os.WriteFile(file, content, 0o600))
	}
	const mine = "what the user wrote"
	if edited != "" {
		w.ok(os.WriteFile(filepath.Join(w.base, "work", edited), []byte(mine), 0o644))
	}
	w.openLog()
	before := w.snapshot()
	if edited == "undone" {
		_, err := w.log.Redo(t.Context(), UndoOptions{Count: 1})
		expectBarrier(t, err)
		treesnap.Same(t, "refused", before, w.snapshot())
		return
	}
	_, err = w.log.Undo(t.Context(), UndoOptions{Count: 1})
	if edited == "new" || edited == "both" {
		expectBarrier(t, err)
		treesnap.Same(t, "refused", before, w.snapshot())
		return
	}
	w.ok(err)
	before = w.snapshot()
	_, err = w.log.Undo(t.Context(), UndoOptions{Count: 1})
	if edited == "old" {
		expectBarrier(t, err)
		treesnap.Same(t, "refused", before, w.snapshot())
	}
	if err != nil { // nobody can tell
		expectBarrier(t, err)
		_, err = w.log.Undo(t.Context(), UndoOptions{Count: 1, Force: true})
		w.ok(err)
	}
	if left := w.snapshot(); len(left.Entries) != 1 {
		t.Errorf("left: %v", left)
	}
}

func expectBarrier(t *testing.T, err error) {
	t.Helper()
	var barrier *BarrierError
	if !errors.As(err, &barrier) {
		t.Fatalf("not asked: %v", err)
	}
}

// TestU14RestoredIsStamped: what a restore left is known when the log is opened again.
func TestU14RestoredIsStamped(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	t.Cleanup(w.close)
	w.step(func() { w.ok(w.create("a", "1")); w.ok(w.create("b", "1")) })
	w.step(func() { w.ok(w.write("a", 0, "2")); w.ok(w.unlink("b")) })
	before := w.snapshot()
	w.restore("a", 1)
	w.restore("b", 1)
	w.ok(w.log.Close())
	w.openLog()
	w.undo(2)
	treesnap.Same(t, "undone", before, w.snapshot())
}
