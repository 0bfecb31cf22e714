package vm

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
)

// resident is a shell in the guest that stays, and does what it is asked to: no
// command begins or ends between two questions, so nothing but what the host
// tells the guest makes it look anew.
type resident struct {
	t     *testing.T
	in    *os.File
	lines *bufio.Reader
	done  chan error
}

// reside starts one. end must be called.
func (l *live) reside() *resident {
	l.t.Helper()
	inR, inW, err := os.Pipe()
	check(l.t, err)
	outR, outW, err := os.Pipe()
	check(l.t, err)
	r := &resident{t: l.t, in: inW, lines: bufio.NewReader(outR), done: make(chan error, 1)}
	go func() {
		const shell = `while read -r line; do eval "$line" 2>&1; echo; echo "@@"; done`
		_, err := l.s.Run(l.t.Context(), api.RunRequest{Argv: []string{"sh", "-c", shell}, Stdin: inR, Stdout: outW, Stderr: outW})
		inR.Close()
		outW.Close()
		r.done <- err
	}()
	return r
}

// ask runs a line of shell and returns what it says.
func (r *resident) ask(line string) string {
	r.t.Helper()
	_, err := fmt.Fprintln(r.in, line)
	check(r.t, err)
	var b strings.Builder
	for {
		text, err := r.lines.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%s: %v after %q", line, err, b.String())
		}
		if text == "@@\n" {
			return strings.TrimSpace(b.String())
		}
		b.WriteString(text)
	}
}

func (r *resident) end() {
	r.t.Helper()
	check(r.t, r.in.Close())
	check(r.t, <-r.done)
}

// hostEdits: what somebody changes on the host is seen inside by who has looked
// before and has it in his caches, which keep for hours: the watcher sees it, and
// the guest is told. Once it is seen, it stays so.
//
// Where the folder is served as Windows' are, modes and links are not the host's.
func hostEdits(t *testing.T, l *live, ofWindows bool) {
	dir := filepath.Join(l.dir, "edits")
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) error { return os.WriteFile(in(name), []byte(text), 0o644) }
	check(t, os.Mkdir(dir, 0o755))
	check(t, os.Mkdir(in("d"), 0o755))
	for _, name := range []string{"same", "grows", "saved", "goes", "moves", "mode", "d/old"} {
		check(t, write(name, "before"))
	}
	check(t, os.Symlink("same", in("link")))
	r := l.reside()
	for _, e := range []struct {
		what, look, before, after string
		edit                      func() error
		posix                     bool
	}{
		{"written in place", "cat same", "before", "after!", func() error { return write("same", "after!") }, false},
		{"grown", "stat -c %s grows", "6", "11", func() error { return write("grows", "before+more") }, false},
		{"saved as editors do", "cat saved", "before", "saved", func() error {
			return errorsOf(write("saved~", "saved"), os.Rename(in("saved~"), in("saved")))
		}, false},
		{"removed", "[ -e goes ] && echo there || echo gone", "there", "gone", func() error { return os.Remove(in("goes")) }, false},
		{"created where there was nothing", "cat new 2>/dev/null || echo none", "none", "new", func() error { return write("new", "new") }, false},
		{"renamed", "[ -e moves ] && echo old; [ -e moved ] && cat moved", "old", "before", func() error { return os.Rename(in("moves"), in("moved")) }, false},
		{"listed", "ls d | xargs", "old", "more old", func() error { return write("d/more", "") }, false},
		{"its mode", "stat -c %a mode", "644", "600", func() error { return os.Chmod(in("mode"), 0o600) }, true},
		{"a link's target", "readlink link", "same", "grows", func() error {
			return errorsOf(os.Remove(in("link")), os.Symlink("grows", in("link")))
		}, true},
		{"in a new directory", "cat e/f 2>/dev/null || echo none", "none", "deep", func() error {
			return errorsOf(os.Mkdir(in("e"), 0o755), write("e/f", "deep"))
		}, false},
	} {
		if e.posix && ofWindows {
			continue
		}
		look := "cd " + dir + " && " + e.look
		for range 2 { // then it is cached
			if got := r.ask(look); got != e.before {
				t.Errorf("%s: before the edit %q, want %q", e.what, got, e.before)
			}
		}
		check(t, e.edit())
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			got := r.ask(look)
			if got == e.after {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: inside it is still %q, want %q", e.what, got, e.after)
			}
		}
		if got := r.ask(look); got != e.after {
			t.Errorf("%s: seen, and then %q again", e.what, got)
		}
	}
	r.end()
	check(t, os.RemoveAll(dir))
}

// errorsOf returns the first of some errors.
func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// neverStale: once a step is undone, the first look inside is at what is there
// again, whatever the guest had cached of it, round after round.
func neverStale(t *testing.T, l *live) {
	const look = "cat a b sub/c; stat -c '%n %s %a' a b sub/c; find . | sort; cat new 2>/dev/null; [ -e sub/d ] || readlink l || true"
	was := l.sh(look)
	for i, change := range []string{
		"echo other >a; rm b; echo x >new", "rm -r sub", "echo longer than before >>sub/c; chmod 600 b; mkdir sub/d; echo y >sub/d/e",
		"ln -s a l; mv b b2; mv a b; mv b2 a", "rm a; mkdir a; mv sub/c a/c",
	} {
		l.sh(change + "; { cat a b sub/* new l; ls -lR; } >/dev/null 2>&1; true")
		l.undo(1)
		if got := l.sh(look); got != was {
			t.Errorf("round %d, after the undo of %q: %q, want %q", i, change, got, was)
		}
	}
}

// TestWatchers: inotify in the guest reports what is edited on the host, as a modification; of the
// directory where something was removed.
func TestWatchers(t *testing.T) {
	l := startLive(t)
	buildInside(t, filepath.Join(l.dir, "inside"))
	l.sh("ls -lR >/dev/null; WATCH=.:sub ./inside -test.run '^TestWatch$' >/tmp/said 2>&1 </dev/null & until grep -qs ready /tmp/said; do sleep 0.1; done")
	at := func(name string) string { return filepath.Join(l.dir, name) }
	said := func(name string) { // that it was modified
		t.Helper()
		if out := l.sh("for i in $(seq 600); do grep -qx 'modify " + name + "' /tmp/said && break; sleep 0.1; done; cat /tmp/said"); !strings.Contains(out, "modify "+name+"\n") {
			t.Errorf("%s: inotify said %q", name, out)
		}
	}
	check(t, os.WriteFile(at("a"), []byte("edited"), 0o644))
	said("a")
	check(t, os.WriteFile(at("new"), []byte("new"), 0o644))
	said("new")
	check(t, os.WriteFile(at("sub/new"), []byte("new"), 0o644))
	said("sub/new")
	l.sh(": >/tmp/said")
	check(t, os.Remove(at("sub/c")))
	said("sub")
	if steps, err := l.s.History(t.Context(), api.HistoryRequest{}); err != nil || len(steps) > 0 {
		t.Errorf("%+v, %v", steps, err)
	}
}

// buildInside builds the program that tests in a guest run.
func buildInside(t *testing.T, to string) {
	t.Helper()
	program := exec.Command("go", "test", "-c", "-trimpath", "-tags", "inguest", "-o", to, "github.com/codeagent/sandbox/tests/suite/vm/inside")
	program.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := program.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", program.Args, err, text)
	}
}
