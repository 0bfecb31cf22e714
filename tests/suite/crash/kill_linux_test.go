package crash

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/fixture"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// tree is where a campaign starts from.
func tree(t testing.TB, root string) {
	fixture.Odd(t, root)
	fixture.Small(t, root)
	fixture.Flat(t, root+"/src", 60, 2000)
	fixture.Flat(t, root+"/large", 1, 1<<20)
}

func runs(t testing.TB) int {
	if v := os.Getenv("SANDBOX_CRASH_RUNS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("SANDBOX_CRASH_RUNS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 10
	}
	return 40
}

// late tells whether the time for kills is over, which begins now: SANDBOX_CRASH_TIME, or never. A campaign looks before each kill.
func late(t testing.TB) func() bool {
	v := os.Getenv("SANDBOX_CRASH_TIME")
	if v == "" {
		return func() bool { return false }
	}
	most, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("SANDBOX_CRASH_TIME: %v", err)
	}
	began := time.Now()
	return func() bool {
		over := time.Since(began) > most
		if over {
			t.Logf("stopped after SANDBOX_CRASH_TIME=%v", most)
		}
		return over
	}
}

func seed(t testing.TB) uint64 {
	if v := os.Getenv("SANDBOX_CRASH_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("SANDBOX_CRASH_SEED: %v", err)
		}
		return n
	}
	return uint64(time.Now().UnixNano())
}

// campaign is a folder with a history. states[i] is the tree before the i-th
// step of it, tree the one now.
type campaign struct {
	t      *testing.T
	bridge string // of the runs
	s      *drive.Sandbox
	r      *rand.Rand
	states []*treesnap.Snapshot
	tree   *treesnap.Snapshot
	undone []*treesnap.Snapshot // what redo leads to, the next last

	// What a run (from its "go"), an undo and a redo take that are left alone;
	// kills come at any moment up to a bit later than that.
	runTakes, undoTakes time.Duration

	kills, committed, undosDone int
	late                        int // see outlived

	inside string // the program as it is seen inside; see visible
	group  *group // of "undo of a group"
}

// moment is a random one in something that takes d.
func (c *campaign) moment(d time.Duration) time.Duration {
	return time.Duration(c.r.Int64N(int64(d + d/4)))
}

// TestKillAtRandom kills runs, undos and redos at random moments.
func TestKillAtRandom(t *testing.T) { killAtRandom(t, "fuse", runs(t)) }

// TestMBKillAtRandom is TestKillAtRandom over the mediated bridge.
func TestMBKillAtRandom(t *testing.T) { killAtRandom(t, "mediated", (runs(t)+7)/8) }

func killAtRandom(t *testing.T, bridge string, total int) {
	t.Parallel()
	s := seed(t)
	t.Logf("SANDBOX_CRASH_SEED=%d", s)
	c := &campaign{t: t, bridge: bridge, s: drive.New(t, tree), r: rand.New(rand.NewPCG(s, 1)), undoTakes: 100 * time.Millisecond}
	c.tree = c.s.Snapshot(t)
	late := late(t)
	c.finishRun()
	for c.kills < total && !t.Failed() && !late() {
		switch n := c.r.IntN(10); {
		case len(c.states) >= 15 || len(c.tree.Entries) > 900:
			c.undoAll()
		case n < 2 && len(c.undone) > 0:
			c.killRedo()
		case n < 4 && len(c.states) > 0:
			c.killUndo()
		case n < 9:
			c.killRun()
		default:
			c.finishRun()
		}
	}
	if !t.Failed() {
		c.undoAll()
	}
	c.s.WaitGone(t)   // a session that is still dying is not swept
	c.s.Must(t, "ps") // sweeps the sockets of killed sessions
	c.s.CheckResidue(t)
	t.Logf("%d kills; of those %d after the step was closed, %d after the undo or redo was", c.kills, c.committed, c.undosDone)
}

// TestMBKilledWhileManyWait kills a run while fifty of its processes wait for a decision.
func TestMBKilledWhileManyWait(t *testing.T) {
	t.Parallel()
	s := drive.New(t, func(t testing.TB, root string) { fixture.Flat(t, root+"/src", 50, 100) })
	before := s.Snapshot(t)
	cmd := s.Command(t.Context(), "run", "--bridge", "mediated", "--safeguard-deletes", "1", "--safeguard-timeout", "10m", "--", "sh", "-c",
		"echo x >new; for f in $(find src -type f); do rm $f & done; wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !strings.Contains(s.Do(t, "pending", "--json").Stdout, `"delete`) {
		select {
		case err := <-ended:
			t.Fatalf("nothing waits: %v", err)
		default:
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	s.WaitGone(t)
	s.Must(t, "run", "--", "true") // which recovers
	if h := s.History(t); len(h) != 0 {
		t.Errorf("%+v", h)
	}
	treesnap.AssertEqual(t, before, s.Snapshot(t), treesnap.Options{IgnoreLinks: true})
	s.Must(t, "ps") // sweeps the sockets of killed sessions
	s.CheckResidue(t)
}

// TestMBKilledWhileWriting kills a run that has a file open for writing, and has asked for nothing for a while: what it wrote is its own, however
// it came by the file.
func TestMBKilledWhileWriting(t *testing.T) {
	for name, open := range map[string]string{"made": ">made", "emptied": ">there", "appended": ">>there", "both": "<>there"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := drive.New(t, func(t testing.TB, root string) {
				if err := os.WriteFile(root+"/there", []byte("old\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			})
			before := s.Snapshot(t)
			cmd := s.Command(t.Context(), "run", "--bridge", "mediated", "--", "sh", "-c", "exec 3"+open+"; sleep 1; echo written >&3; exec sleep 1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			file := filepath.Join(s.Dir, strings.TrimLeft(open, "<>"))
			for b := []byte(nil); !strings.Contains(string(b), "written"); b, _ = os.ReadFile(file) {
				select {
				case err := <-ended:
					t.Fatalf("it has ended: %v", err)
				case <-time.After(10 * time.Millisecond):
				}
			}
			_ = cmd.Process.Kill()
			<-ended
			s.WaitGone(t)
			s.Must(t, "run", "--", "true") // which recovers
			if h := s.History(t); len(h) != 0 {
				t.Errorf("%+v", h)
			}
			treesnap.AssertEqual(t, before, s.Snapshot(t), treesnap.Options{IgnoreLinks: true})
			s.Must(t, "ps") // sweeps the sockets of killed sessions
			s.CheckResidue(t)
		})
	}
}

// killRun kills a run and looks what it left.
func (c *campaign) killRun() {
	c.t.Helper()
	text := script(c.r, 2+c.r.IntN(8))
	delay := c.moment(c.runTakes)
	waitForGo := c.r.IntN(5) > 0
	c.kill(waitForGo, delay, "run", "--bridge", c.bridge, "--", "sh", "-c", text)
	what := fmt.Sprintf("run killed %v after its start (go awaited: %v) of\n%s", delay, waitForGo, text)

	c.undone = nil // a new step dropped it, or would have
	now := c.s.Snapshot(c.t)
	switch steps := c.steps(what); steps {
	case len(c.states):
		c.equal(what, c.tree, c.s.Snapshot(c.t))
	case len(c.states) + 1:
		c.committed++
		c.push(now)
		if c.r.IntN(2) == 0 {
			c.undoTakes = c.s.Must(c.t, "undo").Took
			c.pop()
			c.equal("undo after a "+what, c.tree, c.s.Snapshot(c.t))
		}
	default:
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
	}
}

// killUndo kills an undo of the newest step.
func (c *campaign) killUndo() {
	c.t.Helper()
	n := 1 + c.r.IntN(min(3, len(c.states)))
	delay := c.moment(c.undoTakes)
	c.kill(false, delay, "undo", strconv.Itoa(n))
	what := fmt.Sprintf("undo %d killed after %v", n, delay)
	steps := c.steps(what)
	if steps > len(c.states) || steps < len(c.states)-n {
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
		return
	}
	if steps < len(c.states) {
		c.undosDone++
	}
	for steps < len(c.states) {
		c.pop()
	}
	c.equal(what, c.tree, c.s.Snapshot(c.t))
}

// killRedo kills a redo of the step undone last.
func (c *campaign) killRedo() {
	c.t.Helper()
	delay := c.moment(c.undoTakes)
	c.kill(false, delay, "redo")
	what := fmt.Sprintf("redo killed after %v", delay)
	switch steps := c.steps(what); steps {
	case len(c.states):
	case len(c.states) + 1:
		c.undosDone++
		c.redone()
	default:
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
	}
	c.equal(what, c.tree, c.s.Snapshot(c.t))
}

// finishRun lets a run end by itself.
func (c *campaign) finishRun() {
	c.t.Helper()
	text := script(c.r, 2+c.r.IntN(6))
	c.runTakes = c.s.Must(c.t, "run", "--bridge", c.bridge, "--", "sh", "-c", text).Took
	c.undone = nil
	now := c.s.Snapshot(c.t)
	if c.steps(text) > len(c.states) {
		c.push(now)
	}
}

// undoAll goes back to the beginning.
func (c *campaign) undoAll() {
	c.t.Helper()
	if len(c.states) == 0 {
		return
	}
	c.undoTakes = c.s.Must(c.t, "undo", strconv.Itoa(len(c.states))).Took
	c.tree = c.states[0]
	c.states, c.undone = nil, nil
	c.equal("undo of everything", c.tree, c.s.Snapshot(c.t))
}

func (c *campaign) push(now *treesnap.Snapshot) {
	c.states = append(c.states, c.tree)
	c.tree, c.undone = now, nil
}

func (c *campaign) pop() {
	last := len(c.states) - 1
	c.undone = append(c.undone, c.tree)
	c.tree = c.states[last]
	c.states = c.states[:last]
}

func (c *campaign) redone() {
	last := len(c.undone) - 1
	c.states = append(c.states, c.tree)
	c.tree = c.undone[last]
	c.undone = c.undone[:last]
}

func (c *campaign) equal(what string, want, got *treesnap.Snapshot) {
	c.t.Helper()
	// The log may keep links to files of which a name came or went.
	if !treesnap.AssertEqual(c.t, want, got, treesnap.Options{IgnoreLinks: true}) {
		c.t.Logf("after %s", what)
	}
}

// steps returns how many steps the history has, after what was left was taken up. To look changes nothing.
func (c *campaign) steps(what string) int {
	c.t.Helper()
	left := c.s.Snapshot(c.t)
	c.s.History(c.t)
	c.equal("look after a "+what, left, c.s.Snapshot(c.t))
	c.s.Must(c.t, "run", "--bridge", c.bridge, "--", "true")
	n := 0
	entries := c.s.History(c.t)
	if c.outlived(entries) {
		c.s.Must(c.t, "undo", "--force")
		entries = c.s.History(c.t)
	}
	for _, e := range entries {
		switch {
		case e.Type == "barrier", len(e.Barriers) > 0:
			c.t.Errorf("a barrier in the history after %s: %+v", what, e)
		case e.Damaged != "":
			c.t.Errorf("a damaged step after %s: %+v", what, e)
		}
		if e.Type != "mark" {
			n++
		}
	}
	return n
}

// mostOutlived bounds how often that may be in a campaign.
const mostOutlived = 2

// outlived tells whether the killed step was kept because a change of its own came later than it takes those inside to
// die: on a busy machine a call that was under way at the kill may end that late. Nothing is lost by it.
func (c *campaign) outlived(entries []drive.Step) bool {
	c.t.Helper()
	for _, e := range entries {
		if e.Type == "barrier" || e.Status != "interrupted" || len(e.Barriers) == 0 {
			continue
		}
		for _, b := range e.Barriers {
			for _, path := range b.Paths {
				if !slices.Contains(e.AffectedPaths, path) {
					return false
				}
			}
		}
		c.late++
		c.t.Logf("a change of the step came late: %+v", e)
		return c.late <= mostOutlived
	}
	return false
}

// kill starts the program and sends it SIGKILL after delay, counted from its
// start or from the script's "go". It returns when all it had started is gone.
func (c *campaign) kill(waitForGo bool, delay time.Duration, args ...string) {
	c.t.Helper()
	c.kills++
	kill(c.t, c.s, waitForGo, delay, args...)
}

func kill(t testing.TB, s *drive.Sandbox, waitForGo bool, delay time.Duration, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := s.Command(ctx, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if waitForGo {
		_, _ = r.ReadString('\n') // or the end of a program that failed
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	<-timer.C
	_ = cmd.Process.Kill()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	_ = cmd.Wait()
	s.WaitGone(t)
}
