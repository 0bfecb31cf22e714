//go:build linux && faults

package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// modelKillVar holds the JSON of a modelKill: what the process is to do that is
// killed.
const modelKillVar = "UNDOLOG_MODEL_KILL"

type modelKill struct {
	Base, Undo, Kind, Path, To, Fault string
	Step                              StepID
	Count                             int
	Inline                            int64
	Edited                            bool // it may be refused

	cut *treesnap.Snapshot // the folder as the killed step left it
}

func (k *modelKill) options() Options {
	return Options{Dir: k.Undo, Settings: Settings{Limits: Limits{InlineBytes: k.Inline}}}
}

// TestModelKillHelper is the process that is killed.
func TestModelKillHelper(t *testing.T) {
	arg := os.Getenv(modelKillVar)
	if arg == "" {
		return // not in a test run of its own
	}
	var k modelKill
	if err := json.Unmarshal([]byte(arg), &k); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, k.Base, k.options())
	w.log.quiet()
	w.ok(fault.Arm(k.Fault))
	ctx := context.Background()
	err := k.do(ctx, w.log)
	w.log.quiet()
	if err = errors.Join(err, w.log.emptyTrash(ctx)); err != nil {
		t.Fatal(err)
	}
}

// do does k with the log l. That it is refused is fine where that may be.
func (k *modelKill) do(ctx context.Context, l *Log) (err error) {
	switch k.Kind {
	case "undo":
		_, err = l.Undo(ctx, UndoOptions{Count: k.Count, To: k.To})
	case "redo":
		_, err = l.Redo(ctx, UndoOptions{Count: k.Count})
	case "restore":
		_, err = l.Restore(ctx, RestoreOptions{Path: k.Path, Step: k.Step})
		if errors.Is(err, ErrElsewhere) && !k.Edited {
			_, err = l.Restore(ctx, RestoreOptions{Path: k.Path, Step: k.Step, Force: true})
		}
	case "recover":
		_, err = l.Recover(ctx)
	case "pack":
		_, err = l.GC(ctx, GCOptions{CompressAll: true})
	}
	var errno unix.Errno
	if k.Kind == "restore" && errors.As(err, &errno) && (errno == unix.ENOENT || errno == unix.EACCES) || k.Edited && refused(err) {
		err = nil // refused, as in restoreModel
	}
	return err
}

// refused tells whether err says that nothing was done, because of what there is.
func refused(err error) bool {
	var barrier *BarrierError
	return errors.As(err, &barrier) || errors.Is(err, ErrNothing) || errors.Is(err, ErrNoRedo) || errors.Is(err, ErrNoStep) || errors.Is(err, ErrDamaged) ||
		errors.Is(err, ErrMark) || errors.Is(err, ErrElsewhere) || err != nil && strings.Contains(err.Error(), "nothing of it can be put back")
}

// run does k in a process of its own and tells whether that was killed.
func (k *modelKill) run(t undologtest.T) (killed bool) {
	t.Helper()
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatalf("%v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestModelKillHelper$", "-test.count=1")
	cmd.Env = append(os.Environ(), modelKillVar+"="+string(b))
	out, err := cmd.CombinedOutput()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
	if err != nil && !killed {
		t.Fatalf("%s: %v\n%s", b, err, out)
	}
	t.Logf("DID %s, killed: %v", b, killed)
	return killed
}

// TestModelKilled kills undos, redos, restores, recoveries and compressions of
// random steps at a random point. After the recovery the folder is as the
// history says, and all other states can be reached from there.
func TestModelKilled(t *testing.T) { testModelKilled(t, testDir(t), "") }

// TestModelKilledOtherFileSystem does so where every move between folder and log
// is a copy.
func TestModelKilledOtherFileSystem(t *testing.T) {
	base, undo := twoFileSystems(t)
	testModelKilled(t, base, undo)
}

func testModelKilled(t *testing.T, base, undo string) {
	n, kills := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n++
		k := modelKill{Base: fmt.Sprintf("%s/%d", base, n), Undo: undo}
		if undo != "" {
			k.Undo = fmt.Sprintf("%s/%d", undo, n)
			defer removeForTest(k.Undo)
		}
		k.Inline = rapid.SampledFrom([]int64{64, 64 << 10}).Draw(t, "inline")
		defer removeForTest(k.Base)
		w := newWorld(t, k.Base, k.options())
		defer func() { w.close() }()
		snaps, at := []*treesnap.Snapshot{w.snapshot()}, 0
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			e := w.step(func() { randomOps(t, w) })
			if e != nil {
				at++
				snaps = append(snaps, w.snapshot())
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "kills") {
			if at > 0 && rapid.Bool().Draw(t, "back") {
				back := rapid.IntRange(1, at).Draw(t, "back by")
				w.undo(back)
				at -= back
			}
			k.draw(t, at, len(snaps)-1)
			if k.Kind == "recover" {
				w.begin(w.log.NextID(TypeCommand))
				randomOps(t, w)
				k.cut = nil
				if w.log.cur.Load().Seq() != 0 { // the first capture dropped what was undone
					snaps, k.cut = snaps[:at+1], w.snapshot()
				}
				w.log.takeOpen()
			}
			if k.Kind == "restore" {
				k.Step = w.log.stepEntries()[rapid.IntRange(0, at-1).Draw(t, "restore to")].StepID
				k.Path = genPath(t, w)
			}
			w.close()
			if k.run(t) {
				kills[k.Kind]++
			}
			w = newWorld(t, k.Base, k.options())
			if _, err := w.log.Recover(context.Background()); err != nil {
				t.Fatalf("recover: %v", err)
			}
			at, snaps = k.landed(t, w, at, snaps)
		}
		w.undo0(at)
		treesnap.Same(t, "all undone", snaps[0], w.snapshot())
		for i := 1; i < len(snaps); i++ {
			w.redo(1)
			treesnap.Same(t, fmt.Sprintf("redone to %d", i), snaps[i], w.snapshot())
		}
	})
	if t.Logf("killed %v", kills); len(kills) == 0 {
		t.Error("nothing was killed")
	}
}

func randomOps(t *rapid.T, w *world) {
	for range rapid.IntRange(1, 12).Draw(t, "ops") {
		randomOp(t, w)
	}
}

// undo0 is undo that may have nothing to do.
func (w *world) undo0(n int) {
	if n > 0 {
		w.undo(n)
	}
}

// draw decides what to do and where to be killed. There are steps to undo, and
// more up to last.
func (k *modelKill) draw(t *rapid.T, at, last int) {
	kinds := []string{"recover", "pack"}
	if at > 0 {
		kinds = append(kinds, "undo", "undo", "restore", "restore")
	}
	if last > at {
		kinds = append(kinds, "redo", "redo")
	}
	k.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
	switch k.Kind {
	case "undo":
		k.Count = rapid.IntRange(1, at).Draw(t, "count")
	case "redo":
		k.Count = rapid.IntRange(1, last-at).Draw(t, "count")
	}
	k.Fault = fmt.Sprintf("kill:*:%d", rapid.IntRange(1, 60).Draw(t, "passage"))
}

// landed compares the folder with where the history says that it is, and
// returns that and the states that can be reached.
func (k *modelKill) landed(t *rapid.T, w *world, at int, snaps []*treesnap.Snapshot) (int, []*treesnap.Snapshot) {
	t.Helper()
	st, now := w.log.Status(), w.snapshot()
	switch k.Kind {
	case "restore":
		if st.Steps == at+1 { // done
			snaps = append(snaps[:at+1], now)
			at++
			w.undo(1)
			treesnap.Same(t, "restored and undone", snaps[at-1], w.snapshot())
			w.redo(1)
			return at, snaps
		}
		snaps = snaps[:at+1+st.Redoable] // it may have dropped what was undone
	case "undo", "redo":
		at = st.Steps
	case "recover":
		if st.Redoable > 0 && k.cut != nil { // a redo brings it back
			snaps = append(snaps[:at+1], k.cut)
		} else if k.cut != nil {
			treesnap.Same(t, "a killed step that changed nothing", snaps[at], k.cut)
		}
	}
	if st.Steps != at || st.Redoable != len(snaps)-1-at {
		t.Fatalf("%+v after %s; want %d of %d", st, k.Kind, at, len(snaps)-1)
	}
	treesnap.Same(t, "after a killed "+k.Kind, snaps[at], now)
	return at, snaps
}
