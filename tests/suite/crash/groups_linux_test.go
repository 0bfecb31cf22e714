package crash

import (
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// groupActions are actions on several steps at once: runs of agents, whose commands are steps from inside, and what came after a mark.
func groupActions() []action {
	return []action{
		{"run with steps from inside", (*campaign).visible, []string{"run", "--bridge", "mediated", "--", "sh", "-ec", agent}, (*campaign).verifyAgent},
		{"undo of a group", (*campaign).aGroup, []string{"undo", "--group"}, (*campaign).verifyGroup},
		{"redo of a group", (*campaign).anUndoneGroup, []string{"redo", "--group"}, (*campaign).verifyGroup},
		{"mark", (*campaign).unmarked, []string{"mark", "here"}, (*campaign).verifyMark},
		{"undo to a mark", (*campaign).sinceAMark, []string{"undo", "--to", "here"}, (*campaign).verifyGroup},
	}
}

// agent is a script of which three commands are steps of their own. The program is in PATH.
const agent = `
echo before >> small.txt
"$SANDBOX_INSIDE" run -- sh -ec 'echo first >> small.txt; rm -rf src/d000; mkdir made; echo x > made/x'
"$SANDBOX_INSIDE" run -- sh -ec 'echo second > made/x; mv made moved-here'
echo between > medium.txt
"$SANDBOX_INSIDE" step -- sh -ec 'rm -f hard/one; ln small.txt linked'
echo after >> small.txt
`

// visible has the program seen inside.
func (c *campaign) visible() {
	if c.inside == "" {
		c.inside = drive.Visible(c.t, c.s.Program)
		c.s.Vars = append(c.s.Vars, "SANDBOX_INSIDE="+c.inside)
	}
}

// verifyAgent: the steps that were closed are in the history, and nothing else has happened.
func (c *campaign) verifyAgent(what string) {
	c.t.Helper()
	c.undone = nil
	steps := c.steps(what)
	if steps < len(c.states) || steps > len(c.states)+7 {
		c.t.Errorf("%d steps in the history, had %d, after %s", steps, len(c.states), what)
		return
	}
	if n := steps - len(c.states); n > 0 {
		after := c.s.Snapshot(c.t)
		c.s.Must(c.t, "undo", fmt.Sprint(n))
		c.equal("undo after "+what, c.tree, c.s.Snapshot(c.t))
		c.s.Must(c.t, "redo", fmt.Sprint(n))
		c.equal("redo after "+what, after, c.s.Snapshot(c.t))
		c.s.Must(c.t, "undo", fmt.Sprint(n))
	}
	c.equal(what, c.tree, c.s.Snapshot(c.t))
}

// aGroup makes sure that the newest steps are a group.
func (c *campaign) aGroup() {
	c.t.Helper()
	c.visible()
	if c.group != nil && c.group.done {
		return
	}
	if c.group == nil {
		g := &group{before: c.s.Snapshot(c.t), had: c.steps("before the group")}
		c.s.Must(c.t, "run", "--", "sh", "-ec", agent)
		g.after, g.made, g.done = c.s.Snapshot(c.t), c.steps("the group")-g.had, true
		if g.made < 3 {
			c.t.Fatalf("the agent made %d steps", g.made)
		}
		c.group = g
		return
	}
	c.s.Must(c.t, "redo", "--group")
	c.group.done = true
}

func (c *campaign) anUndoneGroup() {
	c.t.Helper()
	c.aGroup()
	c.s.Must(c.t, "undo", "--group")
	c.group.done = false
}

// group are the steps of an agent's run, and the trees before and after it.
type group struct {
	before, after *treesnap.Snapshot
	had, made     int
	done          bool
}

// verifyGroup: all of it is done, or nothing.
func (c *campaign) verifyGroup(what string) {
	c.t.Helper()
	g := c.group
	switch steps := c.steps(what); steps {
	case g.had:
		g.done = false
		c.equal(what, g.before, c.s.Snapshot(c.t))
	case g.had + g.made:
		g.done = true
		c.equal(what, g.after, c.s.Snapshot(c.t))
	default:
		c.t.Errorf("%d steps in the history, want %d or %d, after %s", steps, g.had, g.had+g.made, what)
	}
}

func (c *campaign) unmarked() { c.s.Do(c.t, "mark", "--delete", "here") }

// verifyMark: the mark stands or it does not, and can be set, found and taken away.
func (c *campaign) verifyMark(what string) {
	c.t.Helper()
	if marked := c.s.Do(c.t, "mark", "--delete", "here"); marked.Code != 0 && !strings.Contains(marked.Stderr, "none has the name") {
		c.t.Errorf("a mark is neither there nor not after %s: %s", what, marked.Stderr)
	}
	if had, n := len(c.states), c.steps(what); n != had {
		c.t.Errorf("%d steps in the history, had %d, after %s", n, had, what)
	}
	c.s.Must(c.t, "mark", "here")
	c.s.Must(c.t, "run", "--", "sh", "-c", "echo marked >> small.txt")
	c.s.Must(c.t, "undo", "--to", "here")
	c.equal(what, c.tree, c.s.Snapshot(c.t))
}

// sinceAMark makes sure that there are steps after the mark.
func (c *campaign) sinceAMark() {
	c.t.Helper()
	g := c.group
	switch {
	case g == nil:
		g = &group{before: c.s.Snapshot(c.t), had: c.steps("before the mark")}
		c.s.Must(c.t, "mark", "here")
		c.s.Must(c.t, "run", "--", "sh", "-ec", everything)
		c.s.Must(c.t, "run", "--", "sh", "-ec", "rm -rf source; echo later >> small.txt")
		g.after, g.made = c.s.Snapshot(c.t), c.steps("after the mark")-g.had
		c.group = g
	case !g.done:
		c.s.Must(c.t, "redo", fmt.Sprint(g.made))
	}
	g.done = true
}
