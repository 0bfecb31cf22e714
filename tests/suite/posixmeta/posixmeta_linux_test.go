package posixmeta

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// lab is a folder without any metadata of ours yet.
type lab struct {
	*testing.T
	s *drive.Sandbox
}

func newLab(t *testing.T) *lab {
	return &lab{t, drive.New(t, func(t testing.TB, root string) {
		for name, text := range map[string]string{"a.txt": "a", "tool": "tool", "run.sh": "true", "d/x": "x", "kept": "kept"} {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})}
}

// sh runs a script inside, as a step; it must succeed.
func (l *lab) sh(script string) string {
	l.Helper()
	return strings.TrimSpace(l.s.Must(l.T, "run", "--posix-metadata", "--", "sh", "-ec", script).Stdout)
}

// says compares what a script prints inside.
func (l *lab) says(want, script string) {
	l.Helper()
	if got := l.sh(script); got != want {
		l.Errorf("%s: %q, want %q", script, got, want)
	}
}

// refused fails unless every one of the commands fails with that error.
func (l *lab) refused(want string, commands ...string) {
	l.Helper()
	for _, c := range commands {
		out := l.sh("if ( " + c + " ) 2>&1; then echo succeeded; fi")
		if !strings.Contains(out, want) || strings.Contains(out, "succeeded") {
			l.Errorf("%s: %q, want %q", c, out, want)
		}
	}
}

// plain fails unless everything on the host is a plain file or directory that
// its owner may read and write.
func (l *lab) plain() {
	l.Helper()
	err := filepath.WalkDir(l.s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && (!st.Mode().IsRegular() && !st.IsDir() || st.Mode().Perm()&0o600 != 0o600) {
			l.Errorf("%s is %v on the host", path, st.Mode())
		}
		return err
	})
	if err != nil {
		l.Error(err)
	}
}

// WN-01: of two names that differ only in case the second is refused, however it
// is made; a name may change its case.
func TestWN01CaseCollision(t *testing.T) {
	l := newLab(t)
	l.sh("echo foo >Foo; mkdir Dir")
	l.refused("File exists", "echo x >foo", "mkdir FOO", "ln -s a.txt fOO", "ln a.txt fOo", "mkdir dIR", "mkfifo DIR")
	l.refused("mv: cannot", "mv a.txt foO", "mv d DIR", "mv -f a.txt FOO") // it says why in its own way
	l.says("foo", "cat Foo; rm Foo; echo x >foo; mv foo FOO; mv FOO Foo; rm Foo; touch foo; rm foo; echo y >FoO; rm FoO")
	l.says("", "i=0; while [ $i -lt 50 ]; do touch n$i; mv n$i N$i; rm N$i; touch n$i; i=$((i+1)); done; ls | grep N || true")
}

// WN-02: names that Windows does not have are refused, wherever they come from.
func TestWN02ReservedNames(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"CON", "nul", "NUL.txt", "com1", "LPT9.log", "aux", "end.", "end ", "a:b", "'a\\b'", "'a?'", "'a*'", "'a|b'", "'a\"b'", "'a<'", "'a>'"} {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "'"), "'")
		n := "'" + name + "'"
		l.refused("Invalid argument", ": >"+n+" || touch "+n)
	}
	l.refused("Invalid argument", "mkdir con", "ln -s a.txt prn", "ln a.txt prn", "mkfifo 'q?'")
	l.refused("mv: cannot", "mv a.txt x.", "mv a.txt nul")
	l.says("a.txt d kept run.sh tool", "ls | xargs")
}

// WN-03: what the host cannot hold lasts beyond the session, follows renames and
// links, and the host's files stay plain.
func TestWN03Persistence(t *testing.T) {
	l := newLab(t)
	l.sh(`chmod 755 tool; chmod 600 a.txt; mkdir -m 700 new; (umask 077; echo x >new/secret); ln -s ../tool new/link; ln -s a.txt l
mkfifo new/pipe; ln tool hard; chmod 500 d; mv new newer; ln -s gone dangling; mv dangling newer/`)
	l.plain()
	l.says("755 600 700 600 500 755", "stat -c %a tool a.txt newer newer/secret d hard | xargs")
	l.says("symbolic link,symbolic link,fifo", "stat -c %F newer/link l newer/pipe | paste -sd,")
	l.says("tool ../tool gone", "cat newer/link; echo \" $(readlink newer/link) $(readlink newer/dangling)\"")
	l.says("3", "find . -type l | wc -l")
	l.refused("Permission denied", "echo x >d/new")
	if b, err := os.ReadFile(filepath.Join(l.s.Dir, "newer", "link")); err != nil || string(b) != "../tool" {
		t.Errorf("on the host the symlink is %q, %v", b, err)
	}
	if os.Geteuid() == 0 {
		l.refused("not permitted", "chown 12345 tool")
	}
	l.sh("chmod 700 d; rm -r newer d hard l")
	l.says("a.txt kept run.sh tool", "ls | xargs")
	l.says("644", "mkdir newer; echo x >newer/secret; stat -c %a newer/secret") // it is another
}

// WN-04: what nobody set a mode for has a likely one.
func TestWN04Defaults(t *testing.T) {
	l := newLab(t)
	l.says("644 644 755 755 644", "stat -c %a a.txt tool run.sh d d/x | xargs")
	if err := os.Chmod(filepath.Join(l.s.Dir, "a.txt"), 0o400); err != nil {
		t.Fatal(err)
	}
	l.says("444", "stat -c %a a.txt")
	l.says("ab", "chmod u+w a.txt; printf b >>a.txt; cat a.txt") // the host lets us, too
}

// state is what a step can change, as it is seen inside.
func (l *lab) state() string {
	l.Helper()
	return l.sh("find . | sort | while read -r f; do stat -c '%n %F %a' \"$f\"; readlink \"$f\" || true; done")
}

// change touches every kind of metadata there is.
const change = `chmod 711 tool; chmod 640 a.txt; ln -s tool link; mv d e; chmod 750 e; rm a.txt; echo new >a.txt; chmod 600 a.txt
mkdir -m 711 f; mv run.sh f/; chmod 700 f/run.sh; ln tool tool2; rm tool; mkfifo pipe`

// WN-05: undo, redo, restore of single paths and a refused step put modes and symlinks
// back as they were.
func TestWN05Rollback(t *testing.T) {
	l := newLab(t)
	l.sh("chmod 700 tool; ln -s a.txt old; chmod 711 d")
	before, tree := l.state(), l.s.Snapshot(t)
	l.sh(change)
	after := l.state()
	if before == after {
		t.Fatal("nothing changed")
	}
	check := func(what, want string) {
		t.Helper()
		if got := l.state(); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
		}
	}
	l.s.Must(t, "undo")
	treesnap.AssertEqual(t, tree, l.s.Snapshot(t))
	check("undone", before)
	l.s.Must(t, "redo")
	check("redone", after)
	l.s.Must(t, "undo")
	check("undone again", before)

	// Only metadata: a step like any other.
	l.sh("chmod 777 tool")
	l.says("777", "stat -c %a tool")
	l.s.Must(t, "undo")
	check("a mode undone", before)

	// A step that is refused is rolled back.
	if r := l.s.Do(t, "run", "--posix-metadata", "--safeguard-rename-over", "--safeguard-timeout", "1ms", "--", "sh", "-c", change+"; mv e/x kept"); r.Code == 0 {
		t.Errorf("a refused step: %+v", r)
	}
	check("refused", before)
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
