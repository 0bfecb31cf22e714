package posix

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/asuser/user"
	"github.com/codeagent/sandbox/tests/drive"
	"github.com/codeagent/sandbox/tests/fixture"
	"github.com/codeagent/sandbox/tests/treesnap"
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

func tree(t testing.TB, root string) {
	fixture.Odd(t, root)
	fixture.Small(t, root)
}

// different lists the cases whose outcome the bridge changes on purpose, and
// what each line becomes.
var different = map[string]map[string]string{
	// setuid and setgid bits set from inside are refused, devices too; the
	// native mknod of a device fails the same way for an ordinary user.
}

// TestMutations runs every case natively and in a session, and undoes it.
func TestMutations(t *testing.T) {
	s := drive.New(t, tree)
	program := install(t)
	initial := s.Snapshot(t)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			wantSaw, wantTree := native(t, program, c)
			saw := inside(t, s, program, c)
			after := s.Snapshot(t)
			if diff := lines(wantSaw, saw, different[c.name]); diff != "" {
				t.Errorf("a program sees something else than natively:\n%s", diff)
			}
			treesnap.AssertEqual(t, wantTree, after, treesnap.Options{IgnoreMtime: true, IgnoreOwner: true})

			if len(s.History(t)) == 0 {
				treesnap.AssertEqual(t, initial, after)
				return
			}
			s.Must(t, "undo")
			ok := treesnap.AssertEqual(t, initial, s.Snapshot(t))
			s.Must(t, "redo")
			ok = treesnap.AssertEqual(t, after, s.Snapshot(t)) && ok
			s.Must(t, "undo")
			ok = treesnap.AssertEqual(t, initial, s.Snapshot(t)) && ok
			if !ok {
				initial = s.Snapshot(t) // the next case starts from here
			}
		})
	}
	s.CheckResidue(t)
}

// TestHistoryOfAll runs every case, one step each, and undoes them one by one.
func TestHistoryOfAll(t *testing.T) {
	s := drive.New(t, tree)
	program := install(t)
	type step struct {
		name   string
		before *treesnap.Snapshot
	}
	var done []step
	for _, c := range cases() {
		before := s.Snapshot(t)
		inside(t, s, program, c)
		if len(s.History(t)) > len(done) {
			done = append(done, step{c.name, before})
		}
	}
	if len(done) < 10 {
		t.Fatalf("only %d steps", len(done))
	}
	for i := len(done) - 1; i >= 0; i-- {
		s.Must(t, "undo")
		if !treesnap.AssertEqual(t, done[i].before, s.Snapshot(t)) {
			t.Fatalf("after the undo of %q", done[i].name)
		}
	}
	s.CheckResidue(t)
}

// install puts this test binary where the jail and any user see it.
func install(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sbp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "cases")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	return program
}

func inside(t *testing.T, s *drive.Sandbox, program string, c testCase) string {
	t.Helper()
	r := s.Do(t, "run", "--env", caseVar+"="+c.name, "--", program)
	if r.Code != 0 {
		t.Fatalf("exit status %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// native runs a case in a fresh tree without a sandbox, as an ordinary user as
// the sandbox does.
func native(t *testing.T, program string, c testCase) (string, *treesnap.Snapshot) {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "sbn-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", base).Run(); os.RemoveAll(base) })
	dir := filepath.Join(base, "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tree(t, dir)
	cmd := exec.Command(program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), caseVar+"="+c.name)
	if os.Geteuid() == 0 {
		uid, gid, err := user.IDs()
		if err != nil {
			t.Fatal(err)
		}
		giveAway(t, base, int(uid), int(gid))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{gid}}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("natively: %v\n%s", err, &stderr)
	}
	return stdout.String(), treesnap.MustTake(t, dir)
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
		if v, ok := wanted[a]; ok {
			a = v
		}
		if a != b {
			out = append(out, fmt.Sprintf("  natively %q\n  inside   %q", a, b))
		}
	}
	return strings.Join(out, "\n")
}
