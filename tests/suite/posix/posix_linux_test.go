package posix

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/fixture"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// testCase is one program. It runs in the working folder.
type testCase struct {
	name string
	do   func(r *recorder)
}

// caseVar makes this test binary run one case and print what it saw.
const caseVar = "SANDBOX_POSIX_CASE"

func TestMain(m *testing.M) {
	name := os.Getenv(caseVar)
	if name == "" {
		os.Exit(m.Run())
	}
	for _, c := range cases() {
		if c.name == name {
			unix.Umask(0o022)
			r := &recorder{}
			c.do(r)
			_, _ = os.Stdout.WriteString(r.b.String())
			os.Exit(0)
		}
	}
	os.Exit(3)
}

func cases() []testCase { return slices.Concat(contentCases, nameCases, metaCases) }

func itoa(n int) string { return strconv.Itoa(n) }

// program is this test binary in the folder that it works on: a jail hides
// temporary directories and homes.
const program = "./.cases"

func tree(t testing.TB, root string) {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, program), b, 0o755); err != nil {
		t.Fatal(err)
	}
	fixture.Odd(t, root)
	fixture.Small(t, root)
}

// different lists what a program sees otherwise inside, on purpose or because a
// bridge cannot help it: by case, a line natively and what it may be inside.
var different = map[string]map[string]string{
	// The kernel's FUSE client does not pass these on.
	"fallocate": {
		"collapse: ok": "collapse: ENOTSUP",
		"insert: ok":   "insert: ENOTSUP",
		"stat large.bin: mode 100644 links 1 size 1434464": "stat large.bin: mode 100644 links 1 size 1500000",
	},
	// root has no number in an ordinary user's jail.
	"ownership": {"to root: EPERM": "to root: EINVAL"},
	// The log keeps a link to a hard-linked file of which a name was removed.
	"links": {"stat pair-b: mode 100644 links 1 size 9": "stat pair-b: mode 100644 links 2 size 9"},
	// A removed file is in the log, and the mediated bridge leaves fstat to the kernel.
	"through an unlinked name": {"links, size, mode = [0 40 33152]": "links, size, mode = [1 40 33152]"},
}

// What may differ between trees that were changed natively and
// inside, and by an undo and a redo.
var (
	asNatively = treesnap.Options{IgnoreMtime: true, IgnoreOwner: true, IgnoreLinks: true}
	asBefore   = treesnap.Options{IgnoreLinks: true}
)

// TestMutations runs every case natively and in each place, and undoes it. A commit has one place or two of them as root, and the others as the user.
func TestMutations(t *testing.T) {
	natives := map[string]outcome{}
	turn := require.Turn(t)
	for _, name := range slices.Sorted(maps.Keys(places)) {
		if !turn() {
			continue
		}
		newPlace := places[name]
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			initial := p.snapshot(t)
			for _, c := range cases() {
				t.Run(c.name, func(t *testing.T) {
					want, ok := natives[c.name]
					if !ok {
						want = native(t, c)
						natives[c.name] = want
					}
					if !mutate(t, p, c, want, initial) {
						initial = p.snapshot(t) // the next case starts from here
					}
				})
			}
			p.close(t)
		})
	}
}

// outcome is what a program saw, and the tree that it left.
type outcome struct {
	saw  string
	tree *treesnap.Snapshot
}

// mutate runs one case, compares what it did with what it does natively, and
// takes it back. It reports whether the tree is as it was.
func mutate(t *testing.T, p place, c testCase, want outcome, initial *treesnap.Snapshot) bool {
	before := p.steps(t)
	saw := p.run(t, c)
	after := p.snapshot(t)
	if diff := lines(want.saw, saw, different[c.name]); diff != "" {
		t.Errorf("a program sees something else than natively:\n%s", diff)
	}
	o := asNatively
	switch c.name {
	case "fallocate":
		o.Exclude = func(path string) bool { return path == "large.bin" }
	case "git":
		o.Exclude = func(path string) bool { return path == ".git/index" } // inode numbers
	}
	treesnap.AssertEqual(t, want.tree, after, o)
	if p.steps(t) == before {
		return treesnap.AssertEqual(t, initial, after, asBefore)
	}
	p.undo(t)
	ok := treesnap.AssertEqual(t, initial, p.snapshot(t), asBefore)
	p.redo(t)
	ok = treesnap.AssertEqual(t, after, p.snapshot(t), asBefore) && ok
	p.undo(t)
	return treesnap.AssertEqual(t, initial, p.snapshot(t), asBefore) && ok
}

// TestHistoryOfAll runs every case, one step each, and undoes them one by one: in each place, of which a commit has one.
func TestHistoryOfAll(t *testing.T) {
	turn := require.OneIn(t, len(places))
	for _, name := range slices.Sorted(maps.Keys(places)) {
		if !turn() {
			continue
		}
		newPlace := places[name]
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			type step struct {
				name   string
				before *treesnap.Snapshot
			}
			var done []step
			all := cases()
			last := slices.IndexFunc(all, func(c testCase) bool { return c.name == "remove everything" }) // the program too
			all = append(slices.Delete(slices.Clone(all), last, last+1), all[last])
			for _, c := range all {
				before := p.snapshot(t)
				p.run(t, c)
				if p.steps(t) > len(done) {
					done = append(done, step{c.name, before})
				}
			}
			if len(done) < 10 {
				t.Fatalf("only %d steps", len(done))
			}
			for i := len(done) - 1; i >= 0; i-- {
				p.undo(t)
				if !treesnap.AssertEqual(t, done[i].before, p.snapshot(t), asBefore) {
					t.Fatalf("after the undo of %q", done[i].name)
				}
			}
			p.close(t)
		})
	}
}

// native runs a case in a fresh tree without a sandbox, as an ordinary user as
// the sandbox does.
func native(t *testing.T, c testCase) outcome {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "sbn-")
	check(t, err)
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", base).Run(); os.RemoveAll(base) })
	dir := filepath.Join(base, "work")
	check(t, os.Mkdir(dir, 0o755))
	tree(t, dir)
	if uid, gid, ok := ordinary(t); ok {
		giveAway(t, base, int(uid), int(gid))
	}
	saw, err := execute(t, dir, c)
	check(t, err)
	return outcome{saw, treesnap.MustTake(t, dir)}
}

// giveAway changes the owner of a tree and nothing else.
func giveAway(t *testing.T, base string, uid, gid int) {
	t.Helper()
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err == nil {
			err = unix.Lchown(path, uid, gid)
		}
		if err == nil && d.Type()&fs.ModeSymlink == 0 {
			err = unix.Chmod(path, st.Mode&0o7777) // chown clears setuid
		}
		return err
	})
	if err == nil {
		err = os.Chmod(base, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lines compares two transcripts, but for the differences that are wanted.
func lines(want, got string, wanted map[string]string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b && wanted[a] != b {
			out = append(out, fmt.Sprintf("  natively %q\n  inside   %q", a, b))
		}
	}
	return strings.Join(out, "\n")
}
