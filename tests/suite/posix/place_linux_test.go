package posix

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// place is where cases run and can be undone.
type place interface {
	run(t *testing.T, c testCase) (saw string)
	steps(t *testing.T) int
	undo(t *testing.T)
	redo(t *testing.T)
	snapshot(t *testing.T) *treesnap.Snapshot
	close(t *testing.T)
}

// places makes each kind of place, with the tree in it.
var places = map[string]func(t *testing.T) place{
	"bridge and log":   newDirect,
	"session":          func(t *testing.T) place { return newSession(t, "fuse") },
	"mediated session": func(t *testing.T) place { return newSession(t, "mediated") },
}

// whole is the real program, with jail and actors: a session that each case joins.
type whole struct{ s *drive.Sandbox }

func newSession(t *testing.T, bridge string) place {
	p := &whole{drive.New(t, tree)}
	p.s.Must(t, "start", "--bridge", bridge, "--safeguard-protect=false")     // nobody is there to say yes to what git writes
	t.Cleanup(func() { _ = p.s.Command(context.Background(), "stop").Run() }) // if the test has failed
	return p
}

func (p *whole) run(t *testing.T, c testCase) string {
	t.Helper()
	r := p.s.Do(t, "run", "--env", caseVar+"="+c.name, "--", program)
	if r.Code != 0 {
		t.Fatalf("exit status %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

func (p *whole) steps(t *testing.T) int                   { return len(p.s.History(t)) }
func (p *whole) undo(t *testing.T)                        { p.s.Must(t, "undo") }
func (p *whole) redo(t *testing.T)                        { p.s.Must(t, "redo") }
func (p *whole) snapshot(t *testing.T) *treesnap.Snapshot { return p.s.Snapshot(t) }
func (p *whole) close(t *testing.T) {
	p.s.Must(t, "stop")
	p.s.CheckResidue(t)
}

// bare is the bridge and the log alone. Natively the cases run as an ordinary
// user, so they do here; the bridge shows that user the files as its own.
type bare struct {
	s          *direct.Session
	dir, mount string
}

func newDirect(t *testing.T) place {
	require.Mount(t)
	base, err := os.MkdirTemp("/var/tmp", "sbd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", base).Run(); os.RemoveAll(base) })
	p := &bare{dir: filepath.Join(base, "work"), mount: filepath.Join(base, "mount")}
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(p.dir, 0o755), os.Mkdir(p.mount, 0o755)); err != nil {
		t.Fatal(err)
	}
	tree(t, p.dir)
	o := direct.Options{Dir: p.dir, Mount: p.mount, Undo: filepath.Join(base, "undo")}
	if uid, gid, ok := ordinary(t); ok {
		o.Owner = &vfs.Owner{UID: uid, GID: gid}
	}
	if p.s, err = direct.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.s.Close() })
	return p
}

func (p *bare) run(t *testing.T, c testCase) string {
	t.Helper()
	var saw string
	_, err := p.s.Step(t.Context(), c.name, func() error {
		var err error
		saw, err = execute(t, p.mount, c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return saw
}

func (p *bare) steps(t *testing.T) int {
	t.Helper()
	h, err := p.s.Log.History()
	check(t, err)
	return len(h)
}

func (p *bare) undo(t *testing.T) { t.Helper(); check(t, p.s.Undo(t.Context(), 1)) }
func (p *bare) redo(t *testing.T) { t.Helper(); check(t, p.s.Redo(t.Context(), 1)) }
func (p *bare) snapshot(t *testing.T) *treesnap.Snapshot {
	t.Helper()
	return treesnap.MustTake(t, p.dir)
}
func (p *bare) close(t *testing.T) { t.Helper(); check(t, p.s.Close()) }

func check(t *testing.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// ordinary returns whom cases run as where this process is root.
func ordinary(t *testing.T) (uid, gid uint32, ok bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	uid, gid, err := user.IDs()
	check(t, err)
	return uid, gid, true
}

// execute runs a case in a directory and returns what it saw.
func execute(t *testing.T, dir string, c testCase) (string, error) {
	t.Helper()
	// Not by Dir: this process may be the one that serves it, and would wait in
	// fork for a child that waits for an answer.
	cmd := exec.Command("env", "-C", dir, program)
	cmd.Env = append(os.Environ(), caseVar+"="+c.name)
	if uid, gid, ok := ordinary(t); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{gid}}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return stdout.String(), err
}
