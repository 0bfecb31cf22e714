package promises

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestMatrix tries all promises in sessions of each kind: of each pair of what a session can be, or in all of them. Of the machines of the
// pairs, which take longer than all else where they are emulated, a commit has every second one.
func TestMatrix(t *testing.T) {
	require.FUSE(t)
	require.UserNamespaces(t)
	users := []string{"user"}
	if os.Geteuid() == 0 {
		users = []string{"root", "sudo"}
	}
	chosen := cells(users...)
	if os.Getenv("SANDBOX_PROMISES") != "all" {
		turn := require.OneIn(t, 2)
		chosen = slices.DeleteFunc(pairwise(chosen), func(c cell) bool { return c.Isolation == "vm" && !turn() })
	}
	once := map[string]bool{}
	for _, c := range chosen {
		t.Run(c.String(), func(t *testing.T) { try(t, c, once) })
	}
}

// try runs one session. What does not depend on it is tried once.
func try(t *testing.T, c cell, once map[string]bool) {
	p := newPlace(t, c)
	p.prober()
	e := &ended{place: p, folder: treesnap.MustTake(t, p.Work), outside: treesnap.MustTake(t, p.Outside)}
	for _, home := range p.Homes {
		e.homes = append(e.homes, treesnap.MustTake(t, home+"/notes"))
	}
	found, said, err := p.run()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, m := range slices.Backward(promises()) { // the first takes back what the others have made
		if !m.applies(c) || m.once && once[m.id] {
			continue
		}
		once[m.id] = true
		how, tried := found[m.id]
		if m.inside != nil && !tried || how != "" {
			t.Errorf("%s: %s", m.id, how)
		}
		if m.outside == nil {
			continue
		}
		if err := m.outside(e); err != nil {
			t.Errorf("%s, seen outside: %v", m.id, err)
		}
	}
	if t.Failed() {
		t.Logf("the session said: %s", said)
	}
}

// prober puts the program that tries it into the folder: this one, and for a machine, which has no libraries, one that needs none.
func (p *place) prober() {
	p.t.Helper()
	to := filepath.Join(p.Work, "prober")
	own, err := os.Executable()
	must(p.t, err)
	cmd := exec.Command("cp", own, to)
	if p.Cell.Isolation == "vm" {
		cmd = exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", to, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	must(p.t, os.Chmod(to, 0o755))
	text, err := json.Marshal(p.prey)
	must(p.t, err)
	put(p.t, p.Work+"/prey", string(text))
}
