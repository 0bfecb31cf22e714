package jail

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/guest/script"
)

// TestW1Proven: what the view promises is tried, and what does not hold is named.
func TestW1Proven(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	absent := filepath.Join(dir, "absent")
	for _, c := range []struct {
		made promise
		ends bool
	}{
		{promise{"a", file, unread, false}, true},
		{promise{"b", dir, unread, false}, true},
		{promise{"c", file, unwritten, false}, true},
		{promise{"d", dir, unextended, false}, true},
		{promise{"e", filepath.Join(dir, "socket"), unanswered, false}, true},
		{promise{"f", absent, unread, false}, false},
		{promise{"g", dir, unwritten, false}, false},
		{promise{"h", "/proc", unextended, false}, false},
		{promise{"i", absent, unanswered, false}, false},
	} {
		err := script.Run(0, nil, func(w *script.Writer) {
			(&viewWriter{Writer: w, plan: &plan{promises: []promise{{"before", absent, unread, false}, c.made, {"after", absent, unread, false}}}}).prove()
		})
		if c.ends != (broken(err) != nil) || c.ends && err.Error() != c.made.text || !c.ends && err != nil {
			t.Errorf("%+v: %v", c.made, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("something was left: %v, %v", entries, err)
	}
}

// TestW1PlanPromises: each hidden place is tried, and where an empty directory stands for it, something in it.
func TestW1PlanPromises(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/in", "b/work", "b/other", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	p := planner{secret: []string{at("a"), at("b"), at("c")}, out: []mount{
		{op: opHideDir, path: at("a")}, {op: opTmpfs, path: at("b")}, {op: opBind, path: at("b/work")}, {op: opTmpfs, path: at("c")},
	}}
	p.user.Home = at("a")
	var got []string
	for _, m := range p.promises() {
		if m.kind == unread {
			got = append(got, m.path)
		}
	}
	if want := at("a") + " " + at("b/other"); strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
