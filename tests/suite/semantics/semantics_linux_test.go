package semantics

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == check.Word {
		os.Exit(check.Main(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// program is this test binary in the folder that it works on: a jail hides temporary
// directories and homes.
const program = ".program"

func tree(t testing.TB, root string) {
	b, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, program), b, 0o755))
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// difference is what a check prints otherwise inside.
type difference struct {
	check, natively, inside string
	why                     string
}

// apply returns the line as it is to be inside. ok is false if the difference does not fit.
func (d *difference) apply(line string) (_ string, ok bool) {
	if !strings.Contains(d.natively, "=") { // a part of a value
		return strings.Replace(line, d.natively, d.inside, 1), strings.Contains(line, d.natively)
	}
	natively, inside := strings.Fields(d.natively), strings.Fields(d.inside)
	values := strings.Fields(line)
	for i, value := range natively {
		at := slices.Index(values, value)
		if at < 0 || i >= len(inside) {
			return line, false
		}
		values[at] = inside[i]
	}
	return strings.Join(values, " "), true
}

// bridges are the flags of sandbox run and what differs there.
var bridges = map[string]struct {
	flags     []string
	different []difference
	user      []difference // as an ordinary user, too
	root      []difference // as root, too
}{
	"fuse":     {[]string{"--bridge", "fuse"}, slices.Concat(jailed, fuse), fuseUser, nil},
	"mediated": {[]string{"--bridge", "mediated"}, slices.Concat(jailed, mediated), nil, mediatedRoot},
}

// TestSemantics compares what programs see over each bridge with what they see natively. Of two bridges and two users a commit has
// each once with all checks: one pair of them and, with the next commit, the other one. The checks that ask for rights, modes and
// owners, and those that differ by user, are there each time.
func TestSemantics(t *testing.T) {
	want := natively(t)
	if len(want) < 150 {
		t.Fatalf("only %d checks", len(want))
	}
	whole := require.Turn(t)
	root := os.Geteuid() == 0
	for _, name := range slices.Sorted(maps.Keys(bridges)) {
		all := whole()
		t.Run(name, func(t *testing.T) {
			b := bridges[name]
			more := b.root
			if !root {
				more = b.user
			}
			different, expected := slices.Concat(b.different, more), want
			checks := []string{"all"}
			if !all {
				some := asking(want, more)
				expected = maps.Clone(want)
				maps.DeleteFunc(expected, func(name, _ string) bool { return !slices.Contains(some, name) })
				different = slices.DeleteFunc(different, func(d difference) bool { return !slices.Contains(some, d.check) })
				checks = []string{"some", strings.Join(some, ",")}
			}
			s := drive.New(t, tree)
			before := s.Snapshot(t)
			args := slices.Concat([]string{"run"}, b.flags, []string{"--", "./" + program, check.Word}, checks, []string{"."})
			r := s.Do(t, args...)
			if r.Code != 0 {
				t.Errorf("exit status %d\n%s", r.Code, r.Stderr)
			}
			compare(t, expected, parse(r.Stdout), different)
			undo := []string{"undo", strconv.Itoa(len(s.History(t)))} // what is written between commands has a step of its own
			s.Must(t, undo...)
			treesnap.AssertEqual(t, before, s.Snapshot(t))
			s.CheckResidue(t)
		})
	}
}

// asking are the checks whose result may depend on the user.
func asking(all map[string]string, different []difference) (names []string) {
	for name := range all {
		of := func(word string) bool { return strings.Contains(name, word) }
		if slices.ContainsFunc([]string{"rights", "own", "mode", "acl", "special"}, of) ||
			slices.ContainsFunc(different, func(d difference) bool { return d.check == name }) {
			names = append(names, name)
		}
	}
	return names
}

// natively runs the checks without a sandbox, as an ordinary user.
func natively(t *testing.T) map[string]string {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "sem-")
	must(t, err)
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", base).Run(); must(t, os.RemoveAll(base)) })
	must(t, os.Chmod(base, 0o755))
	dir := filepath.Join(base, "work")
	must(t, os.Mkdir(dir, 0o755))
	tree(t, base)
	cmd := exec.Command(filepath.Join(base, program), check.Word, "all", dir)
	if os.Geteuid() == 0 {
		uid, gid, err := user.IDs()
		must(t, err)
		must(t, os.Chown(dir, int(uid), int(gid)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{gid}}}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	lines := parse(string(out))
	for name, line := range lines {
		if strings.Contains(line, "stopped=") {
			t.Errorf("%s cannot do what it must do first: %s", name, line)
		}
	}
	return lines
}

// parse returns the line of each check by its name.
func parse(out string) map[string]string {
	lines := map[string]string{}
	for line := range strings.Lines(out) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			lines[name] = rest
		}
	}
	return lines
}

// compare compares the lines, except for the differences that must be there.
func compare(t *testing.T, want, got map[string]string, different []difference) {
	t.Helper()
	expected := map[string]string{}
	for name, line := range want {
		expected[name] = line
	}
	for _, d := range different {
		if d.natively == "" { // the call is not there
			if expected[d.check] = got[d.check]; !strings.Contains(got[d.check], "ENOSYS") {
				t.Errorf("%s: the call is there: %s", d.check, got[d.check])
			}
			continue
		}
		line, ok := d.apply(expected[d.check])
		if !ok {
			t.Errorf("%s: natively there is no %q (%s):\n%s", d.check, d.natively, d.why, expected[d.check])
		}
		expected[d.check] = line
	}
	for name, line := range expected {
		if got[name] != line {
			t.Errorf("%s:%s", name, fields(line, got[name]))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: natively it was not run", name)
		}
	}
}

// fields lists the values that differ.
func fields(want, got string) string {
	w, g := strings.Fields(want), strings.Fields(got)
	var out strings.Builder
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			out.WriteString("\n  expected " + a + "\n  got      " + b)
		}
	}
	return out.String()
}
