//go:build faults

package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// afterKill waits until what is written now was surely not written by the undo that was killed.
func (w *world) afterKill() {
	w.t.Helper()
	roll, err := hostfs.OpenDirAt(w.log.dir.FD(), "rollback")
	w.ok(err)
	defer hostfs.Close(roll)
	death, err := store.ReadAlive(roll)
	w.ok(err)
	w.past(death.Step()) // later than the moment that counts
}

// meanwhile is what somebody does while an undo is interrupted. It returns the contents that must
// survive, by path.
func meanwhile(w *world) map[string]string {
	mine := map[string]string{}
	put := func(path, data string, replace bool) {
		full := filepath.Join(w.base, "work", path)
		if _, err := os.Lstat(filepath.Dir(full)); err != nil {
			return
		}
		if st, err := os.Lstat(full); err == nil && !st.Mode().IsRegular() {
			return
		}
		if replace {
			w.ok(os.WriteFile(full+".tmp", []byte(data), 0o644))
			w.ok(os.Rename(full+".tmp", full))
		} else {
			w.ok(os.WriteFile(full, []byte(data), 0o644))
		}
		mine[path] = data
	}
	put("edit", "MY EDIT", false)
	put("long", "MY LONG", true)
	put("fresh/mine", "MINE", false)
	put("mover", "MY MOVER", false)
	put("linked2", "MY LINKED", false)
	put("victim", "MY VICTIM", true)
	put("mode", "MY MODE", false)
	put("tree/0/f", "MY F", false)
	put("empty", "MY EMPTY", false)
	put("beside", "MY BESIDE", false)
	return mine
}

// TestU2EditsWhileInterrupted kills an undo, a redo and a recovery at every point, and somebody writes to the folder
// before that is completed. All that they wrote is there afterwards, and named; forced undos, which overwrite it, keep it.
func TestU2EditsWhileInterrupted(t *testing.T) {
	base := testDir(t)
	kills, left := 0, 0
	for _, mode := range []string{"undo", "redo", "recover"} {
		for _, point := range []string{"apply.detach", "apply.made", "apply.attach", "apply.linked", "apply.content", "apply.meta", "file.applied"} {
			for n := 1; n < 30; n += 3 {
				if !require.Few(t, fmt.Sprint(mode, point, n), 12) {
					continue
				}
				dir := fmt.Sprintf("%s/%s.%s.%d", base, mode, point, n)
				killed, some := editOnce(t, dir, mode, fmt.Sprintf("kill:%s:%d", point, n))
				removeForTest(dir)
				if !killed {
					break
				}
				kills, left = kills+1, left+some
			}
		}
	}
	if kills == 0 || left == 0 {
		t.Fatalf("%d kills, %d paths left", kills, left)
	}
	t.Logf("%d kills, %d paths left", kills, left)
}

func editOnce(t *testing.T, base, mode, spec string) (killed bool, left int) {
	t.Helper()
	if !killedAt(t, mode+" "+spec, "^TestKillHelper$", killVar+"="+base+"||"+mode+"|"+spec) {
		return false, 0
	}
	var s killSnaps
	b, err := os.ReadFile(base + "/snaps")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	what := mode + " " + spec
	w := newWorld(t, base, Options{Looks: true})
	defer w.close()
	if i := w.log.Status().Interrupted; i == nil || i.StepID != 2 {
		t.Fatalf("%s: %+v", what, i)
	}
	w.afterKill()
	mine := meanwhile(w)
	half := treesnap.MustTake(w.t, w.base+"/work")
	if _, err := w.log.Undo(context.Background(), UndoOptions{DryRun: true}); !errors.Is(err, ErrBusy) {
		t.Fatalf("%s: %v", what, err)
	}
	treesnap.Same(t, what+": looked at", half, treesnap.MustTake(w.t, w.base+"/work"))

	r, err := w.log.Recover(context.Background())
	if err != nil {
		t.Fatalf("%s: recover: %v", what, err)
	}
	w.Forget()
	for path, data := range mine {
		if b, err := os.ReadFile(filepath.Join(base, "work", path)); err != nil || string(b) != data {
			t.Fatalf("%s: %s is %q, %v; left %q", what, path, b, err, r.Edited)
		}
	}
	// What was not touched is done.
	want := s.Before
	if mode == "redo" {
		want = s.After
	}
	now := treesnap.MustTake(w.t, w.base+"/work")
	for _, path := range []string{"x1", "x2", "sub/f", "dir/sub/f", "sym", "pipe"} {
		if now.Line(path) != want.Line(path) && now.Line(path) == half.Line(path) && !strings.Contains(strings.Join(r.Edited, "\n"), path) {
			t.Fatalf("%s: %s is not done: %s; left %q", what, path, now.Line(path), r.Edited)
		}
	}
	if mode != "redo" { // what is left of a redo comes next with another
		forceAndBack(t, w, what, now)
	}
	return true, len(r.Edited)
}

// forceAndBack undoes everything by force, and then brings back what was there.
func forceAndBack(t *testing.T, w *world, what string, now *treesnap.Snapshot) {
	t.Helper()
	ctx := context.Background()
	steps := w.log.stepEntries()
	n := len(steps) - 1 // all but the first
	if n == 0 {
		return
	}
	if _, err := w.log.Undo(ctx, UndoOptions{Count: n}); err != nil {
		var barrier *BarrierError
		if !errors.As(err, &barrier) && !errors.Is(err, ErrDamaged) { // an inode that the undo needs was destroyed
			t.Fatalf("%s: undo: %v", what, err)
		}
	} else {
		after := treesnap.MustTake(w.t, w.base+"/work")
		for path := range after.Entries {
			if now.Line(path) != after.Line(path) {
				t.Fatalf("%s: an undo overwrote edits unasked: %s", what, after.Line(path))
			}
		}
	}
	w.Forget()
	if _, err := w.log.Undo(ctx, UndoOptions{Count: n, Force: true}); err != nil {
		t.Fatalf("%s: forced undo: %v", what, err)
	}
	w.Forget()
	if _, err := w.log.Redo(ctx, UndoOptions{Count: n, Force: true}); err != nil {
		t.Fatalf("%s: redo of the forced undo: %v", what, err)
	}
	w.Forget()
	treesnap.Same(t, what+": brought back", now, treesnap.MustTake(w.t, w.base+"/work"))
}
