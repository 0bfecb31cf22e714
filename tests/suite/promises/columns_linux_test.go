package promises

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// cell is what a session can be: a value for each column.
type cell struct{ Isolation, Bridge, User, Mode, Home, Log, Command string }

// column is one of the choices.
type column struct {
	name   string
	values []string
	of     func(*cell) *string
}

func columns() []column {
	return []column{
		{"isolation", []string{"jail", "landlock", "vm", "none"}, func(c *cell) *string { return &c.Isolation }},
		{"bridge", []string{"mediated", "fuse", "virtiofs", "9p"}, func(c *cell) *string { return &c.Bridge }},
		{"user", []string{"root", "sudo", "user"}, func(c *cell) *string { return &c.User }},
		{"mode", []string{"static", "dynamic"}, func(c *cell) *string { return &c.Mode }},
		{"home", []string{"overlay", "read-only"}, func(c *cell) *string { return &c.Home }},
		{"log", []string{"beside", "state", "flag"}, func(c *cell) *string { return &c.Log }},
		{"command", []string{"first", "joined", "service"}, func(c *cell) *string { return &c.Command }},
	}
}

func (c cell) String() string {
	return strings.Join([]string{c.Isolation, c.Bridge, c.User, c.Mode, c.Home, c.Log, c.Command}, ",")
}

// possible returns whether there can be such a session: what the table of features says.
func (c cell) possible() bool {
	setup := hypervisor.Setup{Isolation: c.Isolation, Bridge: hypervisor.Bridge(c.Bridge)}
	has := func(feature string) bool { f, _ := hypervisor.Find(feature); return f.In(setup).Has }
	if !slices.Contains(hypervisor.Setups(), setup) || c.Mode == "dynamic" && !has("dynamic") || c.Home == "overlay" && !has("home overlay") {
		return false
	}
	// A machine of an ordinary user: tests/suite/vm. A command that joins one needs a terminal, on which the report cannot be told from what else is there.
	return c.Isolation != "vm" || c.User != "user" && c.Command != "joined"
}

// pairs are what a session tries at once, two values each. A machine takes so long to start where it is emulated
// that each bridge and what tries it there has one try.
func (c cell) pairs() (out []string) {
	if c.Isolation == "vm" {
		return []string{"isolation=vm command=" + c.Command, "isolation=vm bridge=" + c.Bridge}
	}
	all := columns()
	for i, a := range all {
		for _, b := range all[:i] {
			out = append(out, fmt.Sprintf("%s=%s %s=%s", b.name, *b.of(&c), a.name, *a.of(&c)))
		}
	}
	return out
}

// cells are all sessions that there can be of some users.
func cells(users ...string) []cell {
	out := []cell{{}}
	for _, col := range columns() {
		var more []cell
		for _, c := range out {
			for _, v := range col.values {
				*col.of(&c) = v
				more = append(more, c)
			}
		}
		out = more
	}
	return slices.DeleteFunc(out, func(c cell) bool { return !c.possible() || !slices.Contains(users, c.User) })
}

// pairwise chooses of some cells as few as it can, so that each pair of values that is in any of them is in one of those: always the
// one with most pairs that are missing, and of several the first.
func pairwise(all []cell) (out []cell) {
	missing := map[string]bool{}
	for _, c := range all {
		for _, p := range c.pairs() {
			missing[p] = true
		}
	}
	gain := func(c cell) (n int) {
		for _, p := range c.pairs() {
			if missing[p] {
				n++
			}
		}
		return n
	}
	for len(missing) > 0 {
		best := slices.MaxFunc(all, func(a, b cell) int { return gain(a) - gain(b) })
		out = append(out, best)
		for _, p := range best.pairs() {
			delete(missing, p)
		}
	}
	return out
}

// TestPairwise: no pair of values is missing, and the sessions are few.
func TestPairwise(t *testing.T) {
	for most, users := range map[int][]string{16: {"user"}, 24: {"root", "sudo"}, 28: {"root", "sudo", "user"}} {
		all := cells(users...)
		chosen := pairwise(all)
		if len(chosen) > most {
			t.Errorf("%q: %d of %d sessions", users, len(chosen), len(all))
		}
		seen := map[string]bool{}
		for _, c := range chosen {
			if !c.possible() || !slices.Contains(users, c.User) {
				t.Errorf("%q: %v", users, c)
			}
			for _, p := range c.pairs() {
				seen[p] = true
			}
		}
		for _, c := range all {
			for _, p := range c.pairs() {
				if !seen[p] {
					t.Errorf("%q: %s is in no session", users, p)
				}
			}
		}
	}
	if n := len(cells("root", "sudo", "user")); n != 3*3*24+3*3*3+2*2*2*3+3*3*3 {
		t.Errorf("%d sessions can be", n)
	}
	machines := slices.DeleteFunc(pairwise(cells("root", "sudo")), func(c cell) bool { return c.Isolation != "vm" })
	if len(machines) != 2 {
		t.Errorf("machines: %v", machines)
	}
}
