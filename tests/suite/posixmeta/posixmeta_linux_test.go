package posixmeta

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// lab is a folder and its program.
type lab struct {
	*Folder
	s *drive.Sandbox
}

func newLab(t *testing.T) *lab {
	s := drive.New(t, func(t testing.TB, root string) {
		for name, text := range Files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	return &lab{&Folder{
		T: t, Host: s.Dir,
		Run: func(script string) (string, int) {
			r := s.Do(t, "run", "--posix-metadata", "--", "sh", "-ec", script)
			if r.Code != 0 {
				r.Stdout += r.Stderr
			}
			return r.Stdout, r.Code
		},
		Undo: func() { s.Must(t, "undo") }, Redo: func() { s.Must(t, "redo") },
	}, s}
}

// TestWN: WN-01 to WN-05 of the specification.
func TestWN(t *testing.T) {
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) { c.Test(newLab(t).Folder) })
	}
}

// Who is not the owner of metadata gives no file away, as on any file system.
func TestOwners(t *testing.T) {
	l := newLab(t)
	if os.Geteuid() == 0 {
		l.refused("not permitted", "chown 12345 tool")
	}
}

// WN-05: the files are as they were, too, and a step that is refused is rolled back.
func TestWN05Refused(t *testing.T) {
	l := newLab(t)
	l.sh("chmod 700 tool; ln -s a.txt old; chmod 711 d")
	before, tree := l.state(), l.s.Snapshot(t)
	l.sh(change)
	l.s.Must(t, "undo")
	treesnap.AssertEqual(t, tree, l.s.Snapshot(t))
	if r := l.s.Do(t, "run", "--posix-metadata", "--safeguard-rename-over", "--safeguard-timeout", "1ms", "--", "sh", "-c", change+"; mv e/x kept"); r.Code == 0 {
		t.Errorf("a refused step: %+v", r)
	}
	if got := l.state(); got != before {
		t.Errorf("refused:\n%s\nwant:\n%s", got, before)
	}
}

// A path alone gets back the metadata that it had before a step, and that is
// undone like any other step.
func TestRestore(t *testing.T) {
	l := newLab(t)
	l.sh("chmod 711 tool; chmod 700 d/x; ln -s a.txt l")
	steps := len(l.history())
	l.sh("chmod 777 tool; chmod 755 d/x; rm l")
	l.sh("echo more >>d/x; chmod 111 d/x; rm d/x")
	now := l.state()
	l.s.Must(t, "restore", "d", "--step", l.history()[len(l.history())-steps-1])
	l.says("700 777", "stat -c %a d/x tool | xargs")
	l.s.Must(t, "undo")
	if got := l.state(); got != now {
		t.Errorf("undone:\n%s\nwant:\n%s", got, now)
	}
}

// history returns the steps' numbers, newest first.
func (l *lab) history() (ids []string) {
	l.Helper()
	for line := range strings.Lines(l.s.Must(l.T, "history").Stdout) {
		if f := strings.Fields(line); len(f) > 0 && strings.Trim(f[0], "0123456789") == "" {
			ids = append(ids, f[0])
		}
	}
	return ids
}

// kill kills the program in the middle of a step, after the script has said "ready".
func (l *lab) kill(script string) {
	l.Helper()
	cmd := l.s.Command(l.Context(), "run", "--posix-metadata", "--", "sh", "-ec", script+"; echo ready; cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		l.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		l.Errorf("%q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	l.s.WaitGone(l.T)
}

// A program that is killed leaves metadata that the next one rolls back, together
// with the files.
func TestWN05Killed(t *testing.T) {
	l := newLab(t)
	l.sh("chmod 700 tool; ln -s a.txt old; chmod 711 d")
	before, tree := l.state(), l.s.Snapshot(t)
	for _, script := range []string{change, "chmod 777 tool", "ln -s b c; rm -r d tool old; mkdir tool; chmod 711 tool"} {
		l.kill(script)
		l.s.Must(t, "undo")
		treesnap.AssertEqual(t, tree, l.s.Snapshot(t))
		if got := l.state(); got != before {
			t.Errorf("%s: killed:\n%s\nwant:\n%s", script, got, before)
		}
	}
	l.sh(change) // and what is done after that is undone as ever
	l.s.Must(t, "undo")
	if got := l.state(); got != before {
		t.Errorf("undone:\n%s\nwant:\n%s", got, before)
	}
}

// WN-06, WN-07: the host's own links (Windows' junctions and other reparse points)
// that lead out of the folder can be removed, but neither written nor read through.
func TestWN06WN07ReparsePoints(t *testing.T) {
	l := newLab(t)
	outside := filepath.Join(l.s.State, "outside")
	if err := os.Mkdir(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"absolute": outside, "relative": "../s/outside", "around": "d/../../s/outside", "d/deep": "../../s/outside",
		"inside": "d/x", "d/up": "../a.txt",
	} {
		if err := os.Symlink(target, filepath.Join(l.s.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"absolute", "relative", "around", "d/deep"} {
		l.refused("Permission denied", "echo x >"+link+"/new", "cat "+link+"/secret", "ls "+link+"/", "mv a.txt "+link+"/new")
		l.refused("Permission denied", "readlink -v "+link)
	}
	l.says("xa", "cat inside d/up")
	l.says("", "rm absolute; mv relative around d/")
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("outside is %q, %v", b, err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
		t.Errorf("outside are %v, %v", names, err)
	}
}
