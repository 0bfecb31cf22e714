package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// everything is a script with each kind of mutation.
const everything = `
echo one more >> small.txt
echo replaced > medium.txt
dd if=/dev/zero of=large.bin bs=1k count=3 seek=300 conv=notrunc status=none
truncate -s 70000 large.bin
fallocate -p -o 8192 -l 8192 sparse
rm -rf src/d000
rm -f hard/one
mv hard/er moved
mkdir -p hard/er/x && mv readonly hard/er/x/
mv -f pair-a run.sh
ln small.txt hardlink
ln -s nowhere soft
mkfifo pipe
chmod 600 attributed
touch -d @1000000000 src
setfattr -n user.k -v v attributed
cp -a special copied 2>/dev/null || true # setuid bits may not be set
rmdir emptydir
for i in 1 2 3 4 5 6; do echo $i > new-$i; done
rm -f new-3 empty.txt
mv src source
`

// action is something that is killed at each fault point it passes.
type action struct {
	name string
	// prepare makes sure that the action has something to do.
	prepare func(c *campaign)
	args    []string
	// verify looks what the kill left, and that the history still works.
	verify func(c *campaign, what string)
}

func actions() []action {
	return []action{
		{"run", func(*campaign) {}, []string{"run", "--bridge", "fuse", "--", "sh", "-ec", everything}, (*campaign).verifyRun},
		{"mediated run", func(*campaign) {}, []string{"run", "--bridge", "mediated", "--", "sh", "-ec", everything}, (*campaign).verifyRun},
		{"undo", (*campaign).aStep, []string{"undo"}, (*campaign).verifyUndo},
		{"redo", func(c *campaign) {
			if len(c.undone) == 0 {
				c.aStep()
				c.s.Must(c.t, "undo")
				c.pop()
			}
		}, []string{"redo"}, (*campaign).verifyRedo},
		{"gc", (*campaign).aFreshStep, []string{"gc", "--compress-all"}, (*campaign).verifyGC},
		{"undo of a compressed step", func(c *campaign) {
			c.aFreshStep()
			c.s.Must(c.t, "gc", "--compress-all")
		}, []string{"undo"}, (*campaign).verifyUndo},
		{"redo after that", func(c *campaign) {
			if len(c.undone) == 0 {
				c.aFreshStep()
				c.s.Must(c.t, "gc", "--compress-all")
				c.s.Must(c.t, "undo")
				c.pop()
			}
		}, []string{"redo"}, (*campaign).verifyRedo},
	}
}

// TestKillAtFaultPoints kills the program at the points at which it changes
// something on the disk, each at its first, second and last passage and at some
// between.
func TestKillAtFaultPoints(t *testing.T) {
	t.Parallel()
	s := seed(t)
	t.Logf("SANDBOX_CRASH_SEED=%d", s)
	require.Program(t, "setfattr", "attr")
	budget, late := runs(t), late(t)
	list := append(actions(), groupActions()...)
	for i, a := range list {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := &campaign{t: t, bridge: "fuse", s: drive.NewFaulty(t, tree), r: rand.New(rand.NewPCG(s, uint64(i)))}
			c.tree = c.s.Snapshot(t)
			passages := c.trace(a)
			chosen := choose(c.r, passages, budget/len(list))
			for _, p := range chosen {
				if c.kills > 0 && late() { // each action once at least
					break
				}
				a.prepare(c)
				c.killAt(p, a)
				if t.Failed() {
					return
				}
			}
			c.undoAll()
			c.s.WaitGone(t)   // a session that is still dying is not swept
			c.s.Must(t, "ps") // sweeps the sockets of killed sessions
			c.s.CheckResidue(t)
			t.Logf("killed at %d of %d passages, chosen: %s", c.kills, total(passages), strings.Join(chosen, " "))
		})
	}
}

// trace runs the action once and returns how often it passes each point.
func (c *campaign) trace(a action) map[string]int {
	c.t.Helper()
	a.prepare(c)
	file := filepath.Join(c.s.State, "trace")
	c.s.Env = []string{"SANDBOX_FAULT=trace:" + file}
	c.s.Must(c.t, a.args...)
	c.s.Env = nil
	b, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		c.t.Fatal(err)
	}
	a.verify(c, "trace of "+a.name)
	n := map[string]int{}
	for point := range strings.Lines(string(b)) {
		n[strings.TrimSpace(point)]++
	}
	if len(n) == 0 {
		c.t.Fatalf("%s passes no fault point", a.name)
	}
	return n
}

// choose picks about n passages, "point:number".
func choose(r *rand.Rand, passages map[string]int, n int) []string {
	picked := map[string]bool{}
	var rest []string
	for point, count := range passages {
		for i := 1; i <= count; i++ {
			p := fmt.Sprintf("%s:%d", point, i)
			if i == 1 || i == count || i == 2 {
				picked[p] = true
			} else {
				rest = append(rest, p)
			}
		}
	}
	slices.Sort(rest)
	r.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	var list []string
	for p := range picked {
		list = append(list, p)
	}
	slices.Sort(list)
	if len(list) < n {
		list = append(list, rest[:min(len(rest), n-len(list))]...)
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) // there may not be time for all
	return list
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// killAt lets the action be killed at a passage.
func (c *campaign) killAt(passage string, a action) {
	c.t.Helper()
	c.kills++
	start := time.Now()
	c.s.Env = []string{"SANDBOX_FAULT=kill:" + passage}
	r := c.s.Do(c.t, a.args...)
	c.s.Env = nil
	what := fmt.Sprintf("%s killed at %s (after %v)", a.name, passage, time.Since(start))
	// The script decides how often a point is passed, and it does not run twice
	// in the same order of writes: a late passage may not come.
	if r.Code != 137 && r.Code != 0 {
		c.t.Errorf("%s: exit status %d\n%s", what, r.Code, r.Stderr)
	}
	c.s.WaitGone(c.t)
	a.verify(c, what)
}

// aStep makes sure that there is a step to undo.
func (c *campaign) aStep() {
	if len(c.states) == 0 {
		c.complete()
	}
}

// aFreshStep makes the newest step one that was not compressed.
func (c *campaign) aFreshStep() {
	c.undoAll()
	c.complete()
}

func (c *campaign) complete() {
	c.t.Helper()
	c.s.Run(c.t, everything)
	c.push(c.s.Snapshot(c.t))
}

func (c *campaign) verifyRun(what string) {
	c.t.Helper()
	c.undone = nil
	now := c.s.Snapshot(c.t)
	switch steps := c.steps(what); steps {
	case len(c.states):
		c.equal(what, c.tree, c.s.Snapshot(c.t))
	case len(c.states) + 1:
		c.push(now)
		c.s.Must(c.t, "undo")
		c.pop()
		c.equal("undo after "+what, c.tree, c.s.Snapshot(c.t))
	default:
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
	}
}

func (c *campaign) verifyUndo(what string) {
	c.t.Helper()
	switch steps := c.steps(what); steps {
	case len(c.states):
	case len(c.states) - 1:
		c.pop()
	default:
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
		return
	}
	c.equal(what, c.tree, c.s.Snapshot(c.t))
	if len(c.undone) > 0 {
		c.s.Must(c.t, "redo")
		c.redone()
		c.equal("redo after "+what, c.tree, c.s.Snapshot(c.t))
	}
}

func (c *campaign) verifyRedo(what string) {
	c.t.Helper()
	switch steps := c.steps(what); steps {
	case len(c.states):
	case len(c.states) + 1:
		c.redone()
	default:
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
		return
	}
	c.equal(what, c.tree, c.s.Snapshot(c.t))
	if len(c.states) > 0 {
		c.s.Must(c.t, "undo")
		c.pop()
		c.equal("undo after "+what, c.tree, c.s.Snapshot(c.t))
	}
}

func (c *campaign) verifyGC(what string) {
	c.t.Helper()
	if steps := c.steps(what); steps != len(c.states) {
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
		return
	}
	c.equal(what, c.tree, c.s.Snapshot(c.t))
	c.s.Must(c.t, "undo")
	c.pop()
	c.equal("undo after "+what, c.tree, c.s.Snapshot(c.t))
	c.s.Must(c.t, "redo")
	c.redone()
	c.equal("redo after "+what, c.tree, c.s.Snapshot(c.t))
}
