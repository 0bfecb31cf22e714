//go:build faults

package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

const groupKillVar = "UNDOLOG_GROUP_KILL" // base|undo or redo|fault

// threeSteps makes a step and a group of three, and returns the folder before and after
// the group.
func threeSteps(w *world) (before, after *treesnap.Snapshot) {
	w.step(func() { uneventful(w) })
	before = w.snapshot()
	w.grouped(2, func() { w.ok(w.write("edit", 2, "ED")); w.ok(rmtree(w, "tree")) })
	w.grouped(2, func() { w.ok(w.mkdir("tree")); w.ok(w.rename("edit", "tree/edit", 0)) })
	w.grouped(2, func() { w.ok(w.write("tree/edit", 0, "again")); w.ok(w.unlink("mover")) })
	return before, w.snapshot()
}

// TestGroupKillHelper is the process that is killed.
func TestGroupKillHelper(t *testing.T) {
	arg := strings.Split(os.Getenv(groupKillVar), "|")
	if len(arg) != 3 {
		return // not in a test run of its own
	}
	w := newWorld(t, arg[0], Options{})
	before, after := threeSteps(w)
	kind := taskKind(arg[1])
	if kind == taskRedo {
		if _, err := w.travelGroup(taskUndo, UndoOptions{Group: 2}); err != nil {
			t.Fatal(err)
		}
	}
	w.log.quiet()
	b, err := json.Marshal(killSnaps{before, after})
	if err = errors.Join(err, os.WriteFile(arg[0]+"/snaps", b, 0o600), fault.Arm(arg[2])); err != nil {
		t.Fatal(err)
	}
	if _, err := w.travelGroup(kind, UndoOptions{Group: NewestGroup}); err != nil {
		t.Fatal(err)
	}
}

// TestGroupKilledAnywhere kills the undo and the redo of a group of three at the places
// between and around its transactions. After the recovery the whole group is undone, or
// nothing of it.
func TestGroupKilledAnywhere(t *testing.T) {
	base := testDir(t)
	kills, few := 0, false
	for _, kind := range []taskKind{taskUndo, taskRedo} {
		for _, point := range []string{"file.together", "together.next", "rollback.begin", "apply.attach", "rollback.moved", "rollback.end", "together.end"} {
			if !require.Few(t, string(kind)+point, 6) {
				few = true
				continue
			}
			for n := 1; groupKilled(t, fmt.Sprintf("%s/%s.%s.%d", base, kind, point, n), kind, fmt.Sprintf("kill:%s:%d", point, n)); n++ {
				kills++
			}
		}
	}
	if kills < 20 && !few || kills == 0 {
		t.Errorf("only %d kills", kills)
	}
}

func groupKilled(t *testing.T, base string, kind taskKind, spec string) bool {
	t.Helper()
	defer removeForTest(base)
	cmd := exec.Command(os.Args[0], "-test.run=^TestGroupKillHelper$", "-test.count=1")
	cmd.Env = append(os.Environ(), groupKillVar+"="+base+"|"+string(kind)+"|"+spec)
	out, err := cmd.CombinedOutput()
	killed := fault.Killed(cmd.ProcessState)
	if err != nil && !killed {
		t.Fatalf("%s %s: %v\n%s", kind, spec, err, out)
	}
	var s killSnaps
	b, err := os.ReadFile(base + "/snaps")
	if err = errors.Join(err, json.Unmarshal(b, &s)); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, base, Options{Settings: Settings{Limits: Limits{StepCount: 1}}}) // which evicts nothing before the recovery
	defer w.close()
	pending := w.log.rollingBack()
	w.log.SetLimits(Limits{})
	if _, err := w.log.Recover(context.Background()); err != nil {
		t.Fatalf("%s %s: recover: %v", kind, spec, err)
	}
	if r, err := w.log.Recover(context.Background()); r != nil || err != nil {
		t.Fatalf("%s %s: second recovery: %+v, %v", kind, spec, r, err)
	}
	st, what := w.log.Status(), fmt.Sprintf("%s %s: %+v", kind, spec, w.log.Status())
	switch {
	case !pending: // it had not begun, or was over: the limit held at once
		return killed
	case st.Steps == 4 && st.Redoable == 0:
		treesnap.Same(t, what, s.After, w.snapshot())
	case st.Steps == 1 && st.Redoable == 3:
		treesnap.Same(t, what, s.Before, w.snapshot())
	default:
		t.Fatalf("in part: %s", what)
	}
	return killed
}

// TestU1KillsWithEditsBetween kills the undo and the redo of a group at the places between and inside its transactions, and somebody writes to the
// folder before that is completed. All that they wrote is there afterwards, also after an undo and a redo that are not forced.
func TestU1KillsWithEditsBetween(t *testing.T) {
	base := testDir(t)
	kills, stopped, few := 0, 0, false
	for _, kind := range []taskKind{taskUndo, taskRedo} {
		for _, point := range []string{"file.together", "together.next", "rollback.begin", "apply.detach", "apply.attach", "apply.content", "rollback.moved", "rollback.end", "together.end"} {
			if !require.Few(t, string(kind)+point, 6) {
				few = true
				continue
			}
			for n := 1; ; n++ {
				dir := fmt.Sprintf("%s/%s.%s.%d", base, kind, point, n)
				killed, stop := groupKilledAndEdited(t, dir, kind, fmt.Sprintf("kill:%s:%d", point, n))
				removeForTest(dir)
				if !killed {
					break
				}
				kills++
				if stop {
					stopped++
				}
			}
		}
	}
	if (kills < 20 || stopped == 0) && !few || kills == 0 {
		t.Errorf("%d kills, %d groups that were left for an edit", kills, stopped)
	}
	t.Logf("%d kills, %d groups that were left for an edit", kills, stopped)
}

func groupKilledAndEdited(t *testing.T, base string, kind taskKind, spec string) (killed, stopped bool) {
	t.Helper()
	if !killedAt(t, spec, "^TestGroupKillHelper$", groupKillVar+"="+base+"|"+string(kind)+"|"+spec) {
		return false, false
	}
	var warned []Warning
	w := newWorld(t, base, Options{Warn: func(x Warning) { warned = append(warned, x) }})
	defer w.close()
	if w.log.interrupted() {
		w.afterKill()
	}
	mine := meanwhile(w)
	_, err := w.log.Recover(context.Background())
	w.ok(err)
	what := string(kind) + " " + spec
	w.stillThere(what+": recovery", mine)
	for _, way := range []taskKind{taskUndo, taskRedo, taskUndo} {
		w.Forget()
		_, err := w.travelGroup(way, UndoOptions{Group: NewestGroup})
		if barrier := (*BarrierError)(nil); err != nil && !errors.As(err, &barrier) && !errors.Is(err, ErrNoRedo) && !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %s: %v", what, way, err)
		}
		w.stillThere(what+": "+string(way), mine)
	}
	return true, slices.ContainsFunc(warned, func(x Warning) bool { return x.Code == WarnExternal && strings.Contains(x.Message, "is not completed") })
}

// killedAt runs a helper, which is given something in its environment, and tells whether it was killed.
func killedAt(t *testing.T, spec, helper, env string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run="+helper, "-test.count=1")
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	killed := fault.Killed(cmd.ProcessState)
	if err != nil && !killed {
		t.Fatalf("%s: %v\n%s", spec, err, out)
	}
	return killed
}

// stillThere finds in the folder each content that somebody wrote, at whichever path.
func (w *world) stillThere(what string, mine map[string]string) {
	w.t.Helper()
	now := map[string]bool{}
	w.ok(filepath.WalkDir(filepath.Join(w.base, "work"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var b []byte
			b, err = os.ReadFile(path)
			now[string(b)] = true
		}
		return err
	}))
	for path, data := range mine {
		if !now[data] {
			w.t.Fatalf("%s: %q of %s is gone", what, data, path)
		}
	}
}

// TestU1KilledRestoreEdited is the same for a restore: what was left of it for an edit is not the restore's own, for the undo that follows.
func TestU1KilledRestoreEdited(t *testing.T) {
	base := testDir(t)
	kills, few := 0, false
	for _, point := range []string{"rollback.begin", "apply.detach", "apply.attach", "apply.content", "apply.meta", "file.applied", "rollback.moved", "rollback.end"} {
		for n := 1; n < 30; n += 3 {
			if !require.Few(t, fmt.Sprint(point, n), 4) {
				few = true
				continue
			}
			dir, spec := fmt.Sprintf("%s/%s.%d", base, point, n), fmt.Sprintf("kill:%s:%d", point, n)
			if !killedAt(t, spec, "^TestKillHelper$", killVar+"="+dir+"||restore|"+spec) {
				removeForTest(dir)
				break
			}
			kills++
			w := newWorld(t, dir, Options{})
			if w.log.interrupted() {
				w.afterKill()
			}
			mine := meanwhile(w)
			_, err := w.log.Recover(context.Background())
			w.ok(err)
			w.stillThere(spec+": recovery", mine)
			w.Forget()
			if _, err := w.log.Undo(context.Background(), UndoOptions{}); err != nil && !errors.As(err, new(*BarrierError)) && !errors.Is(err, ErrDamaged) { // an inode that the undo needs was destroyed
				t.Errorf("%s: undo: %v", spec, err)
			}
			w.stillThere(spec+": undo", mine)
			w.close()
			removeForTest(dir)
		}
	}
	if kills < 10 && !few || kills == 0 {
		t.Errorf("only %d kills", kills)
	}
}

// TestGroupTakenBack makes a transaction in the middle of a group fail, before it has
// changed anything: what was done before is taken back.
func TestGroupTakenBack(t *testing.T) {
	for _, kind := range []taskKind{taskUndo, taskRedo} {
		w := newWorld(t, testDir(t), Options{})
		before, after := threeSteps(w)
		want, steps := after, 4
		if kind == taskRedo {
			if _, err := w.travelGroup(taskUndo, UndoOptions{Group: 2}); err != nil {
				t.Fatal(err)
			}
			want, steps = before, 1
		}
		w.log.quiet()
		w.ok(fault.Arm("err:rollback.begin:3:EIO")) // against one ENOSPC the reserve would help
		res, err := w.travelGroup(kind, UndoOptions{Group: NewestGroup})
		w.ok(fault.Arm(""))
		if !errors.Is(err, posix.EIO) || res == nil || len(res.Steps) > 0 || !res.Changes.All {
			t.Fatalf("%s: %+v, %v", kind, res, err)
		}
		if st := w.log.Status(); st.Steps != steps || w.log.rollingBack() {
			t.Errorf("%s: %+v", kind, st)
		}
		treesnap.Same(t, string(kind), want, w.snapshot())
		if _, err := w.travelGroup(kind, UndoOptions{Group: NewestGroup}); err != nil {
			t.Errorf("%s again: %v", kind, err)
		}
		w.close()
	}
}
