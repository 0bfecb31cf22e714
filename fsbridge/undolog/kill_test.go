//go:build faults

package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

const killVar = "UNDOLOG_KILL_TEST" // base|undo directory, if it is not there|mode|fault

// eventful is a step with everything in it.
func eventful(w *world) {
	w.ok(w.write("edit", 2, "EDITED"))
	w.ok(w.truncate("long", 100))
	w.ok(w.write("long", 70000, "tail"))
	w.ok(rmtree(w, "tree"))
	w.ok(w.create("tree", "a file now"))
	w.ok(w.rename("dir/sub", "sub", 0))
	w.ok(w.rename("dir", "sub/dir", 0))
	w.ok(w.mkdir("fresh"))
	w.ok(w.rename("mover", "fresh/moved", 0))
	w.ok(w.link("linked", "fresh/again"))
	w.ok(w.unlink("linked2"))
	if !undologtest.Plain {
		w.ok(w.rename("x1", "x2", posix.RENAME_EXCHANGE))
		w.ok(w.chmod("mode", 0o4711))
		w.ok(w.setxattr("mode", "user.a", "new"))
	}
	w.ok(w.rename("over", "victim", 0))
	w.ok(w.unlink("sym"))
	w.ok(w.unlink("pipe"))
	w.ok(w.create("empty", ""))
}

func uneventful(w *world) {
	w.ok(w.create("edit", "0123456789"))
	w.ok(w.create("long", strings.Repeat("long ", 40000)))
	w.ok(w.mkdir("tree"))
	for i := range 5 {
		w.ok(w.mkdir(fmt.Sprintf("tree/%d", i)))
		w.ok(w.create(fmt.Sprintf("tree/%d/f", i), strings.Repeat("f", i)))
	}
	w.ok(w.mkdir("dir"))
	w.ok(w.mkdir("dir/sub"))
	w.ok(w.create("dir/sub/f", "sub f"))
	for _, f := range []string{"mover", "linked", "x1", "x2", "over", "victim", "mode"} {
		w.ok(w.create(f, "content of "+f))
	}
	w.ok(w.link("linked", "linked2"))
	if !undologtest.Plain {
		w.ok(w.setxattr("mode", "user.a", "old"))
	}
	w.ok(w.symlink("edit", "sym"))
	w.ok(w.fifo("pipe"))
}

type killSnaps struct{ Before, After *treesnap.Snapshot }

// TestKillHelper is the process that is killed.
func TestKillHelper(t *testing.T) {
	arg := strings.Split(os.Getenv(killVar), "|")
	if len(arg) != 4 {
		return // not in a test run of its own
	}
	base, mode, spec := arg[0], arg[2], arg[3]
	ctx := context.Background()
	w := newWorld(t, base, Options{Dir: arg[1]})
	w.step(func() { uneventful(w) })
	s := killSnaps{Before: w.snapshot()}
	w.begin(w.log.NextID(TypeCommand))
	eventful(w)
	if mode != "abort" && mode != "recover" && mode != "take up" {
		w.commit()
	}
	s.After = w.snapshot()
	if mode == "packed" {
		if _, err := w.log.GC(ctx, GCOptions{CompressAll: true}); err != nil {
			t.Fatal(err)
		}
	}
	if mode == "redo" {
		w.undo(1)
	}
	w.log.quiet()
	err := w.log.emptyTrash(ctx) // what is left of it now would count with what comes
	var b []byte
	if err == nil {
		b, err = json.Marshal(s)
	}
	if err == nil {
		err = os.WriteFile(base+"/snaps", b, 0o600)
	}
	if err == nil {
		err = fault.Arm(spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	switch mode {
	case "abort":
		_, err = w.log.Abort(ctx)
	case "redo":
		_, err = w.log.Redo(ctx, UndoOptions{})
	case "recover":
		_, err = w.log.Recover(ctx)
	case "restore":
		_, err = w.log.Restore(ctx, RestoreOptions{Step: 2})
	case "take up":
		w.log.takeOpen()
		_, err = w.log.Undo(ctx, UndoOptions{})
	default:
		_, err = w.log.Undo(ctx, UndoOptions{})
	}
	w.log.quiet()
	if err = errors.Join(err, w.log.emptyTrash(ctx)); err != nil {
		t.Fatal(err)
	}
}

// TestKilledAnywhere kills an undo, a redo, an undo from the compressed store,
// the rollback of an open step, and of an interrupted one, at every fault point, each time it is
// passed; recovery must leave the tree as before or as after, the history must
// agree, and nothing may look like an edit from outside.
func TestKilledAnywhere(t *testing.T) {
	points := []string{
		"file.plan", "rollback.begin", "journal.append", "apply.detach", "apply.make", "apply.made",
		"apply.attach", "apply.linked", "apply.content", "apply.meta", "file.applied", "rollback.finish", "rollback.moved", "rollback.end",
		"trash.unlinked",
	}
	killEverywhere(t, testDir(t), "", points, "undo", "redo", "packed", "abort", "recover", "take up")
}

// TestKilledAnywhereOtherFileSystem does the same where every move between the
// folder and the log is a copy.
func TestKilledAnywhereOtherFileSystem(t *testing.T) {
	base, undo := twoFileSystems(t)
	killEverywhere(t, base, undo, []string{"apply.copied", "rollback.begin", "apply.detach", "apply.noted", "apply.made", "apply.attach", "apply.brought", "apply.meta"}, "undo", "redo", "packed", "abort", "recover")
}

func killEverywhere(t *testing.T, base, undo string, points []string, modes ...string) {
	t.Helper()
	kills, few := map[string]int{}, map[string]bool{}
	tried := require.OneIn(t, 3)
	for _, mode := range modes {
		once := func(name, fault string) bool {
			name = "/" + mode + "." + name
			log := undo
			if undo != "" {
				log += name
			}
			defer removeForTest(base + name)
			return killOnce(t, base+name, log, mode, fault)
		}
		passed := passages(t, filepath.Join(base, "trace-"+mode), once)
		for _, point := range points {
			for n := 1; n <= passed[point]; n++ {
				if n > 6 && n%5 != 1 { // the many passages of one kind: every fifth
					continue
				}
				if n > 1 && !tried() {
					continue
				}
				if !require.Few(t, fmt.Sprint(mode, point, n), 10) {
					few[point] = true
					continue
				}
				if !once(fmt.Sprintf("%s.%d", point, n), fmt.Sprintf("kill:%s:%d", point, n)) {
					t.Errorf("%s: passed %s less than %d times", mode, point, n)
				}
				kills[point]++
			}
		}
	}
	for _, point := range points {
		if kills[point] == 0 && !few[point] {
			t.Errorf("never killed at %s", point)
		}
	}
	t.Logf("killed at %v", kills)
}

// passages is how often each point is passed by what once does.
func passages(t *testing.T, file string, once func(name, fault string) bool) map[string]int {
	t.Helper()
	if once("trace", "trace:"+file) {
		t.Fatal("killed without a fault")
	}
	trace, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	passed := map[string]int{}
	for point := range strings.Lines(string(trace)) {
		passed[strings.TrimSpace(point)]++
	}
	return passed
}

func killOnce(t *testing.T, base, undo, mode, spec string) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillHelper$", "-test.count=1")
	cmd.Env = append(os.Environ(), killVar+"="+base+"|"+undo+"|"+mode+"|"+spec)
	out, err := cmd.CombinedOutput()
	killed = fault.Killed(cmd.ProcessState)
	if err != nil && !killed {
		t.Fatalf("%s %s: %v\n%s", mode, spec, err, out)
	}
	var s killSnaps
	b, err := os.ReadFile(base + "/snaps")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", mode, spec, err)
	}
	w := newWorld(t, base, Options{Dir: undo})
	defer w.close()
	what := mode + " " + spec
	if _, err := w.log.Recover(context.Background()); err != nil {
		t.Fatalf("%s: recover: %v", what, err)
	}
	if r, err := w.log.Recover(context.Background()); r != nil || err != nil {
		t.Fatalf("%s: second recovery: %+v, %v", what, r, err)
	}
	st := w.log.Status()
	if mode == "abort" {
		if st.Steps != 1 || st.Redoable != 1 {
			t.Fatalf("%s: %+v", what, st)
		}
		treesnap.Same(t, what, s.Before, w.snapshot())
	}
	if st.Steps+st.Redoable != 2 || st.Steps < 1 {
		h, err := w.log.History()
		t.Fatalf("%s: %+v: %+v %v", what, st, h, err)
	}
	if st.Steps == 2 {
		treesnap.Same(t, what+": as after the step", s.After, w.snapshot())
		w.undo(1)
	}
	treesnap.Same(t, what+": undone", s.Before, w.snapshot())
	w.redo(1)
	treesnap.Same(t, what+": done again", s.After, w.snapshot())
	w.undo(2)
	if got := w.snapshot(); len(got.Entries) != 1 {
		t.Fatalf("%s: left: %v", what, got)
	}
	return killed
}
