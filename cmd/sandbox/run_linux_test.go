package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// desk is a user's place: a folder, a home, a state and a runtime directory.
type desk struct {
	t   *testing.T
	dir string
	env []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	base := t.TempDir()
	run, err := os.MkdirTemp("/tmp", "sb") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	d := &desk{t: t, dir: filepath.Join(base, "work")}
	for _, name := range []string{"work", "home", "state"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.env = []string{
		"HOME=" + filepath.Join(base, "home"), "XDG_STATE_HOME=" + filepath.Join(base, "state"),
		"XDG_RUNTIME_DIR=" + run, "TERM=xterm", "XDG_CONFIG_HOME=" + filepath.Join(base, "home"),
	}
	return d
}

// sandbox is the program in the folder.
func (d *desk) sandbox(args ...string) *exec.Cmd {
	cmd := screen.Helper(d.t, "sandbox", args...)
	cmd.Dir = d.dir
	cmd.Env = append(cmd.Env, d.env...)
	return cmd
}

func (d *desk) must(args ...string) string {
	d.t.Helper()
	cmd := d.sandbox(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("sandbox %v: %v\n%s%s", args, err, out, &stderr)
	}
	return string(out)
}

func (d *desk) write(name, content string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(d.dir, name))
	return err == nil
}

// A full-screen program inside: alternative screen, raw mode, single keys, a
// new size, and the user's terminal as before at the end.
func TestRunFullScreenProgram(t *testing.T) {
	d := newDesk(t)
	d.write("editor", `printf '\033[?1049h'; stty -icanon -icrnl -isig -echo min 1
trap 'new=1; stty size | tr "\n" " "' WINCH
printf 'size '; stty size | tr "\n" " "; printf 'ready '
until [ $new ]; do sleep 0.02; done # a signal that comes just before a read does not end it
while :; do read k && break; done
echo "$k" >key
stty sane; printf '\033[?1049l'
`)
	s := screen.On(t, d.sandbox("run", "--", "sh", "editor"))
	before := screen.FreshModes(t)
	s.Expect("\x1b[?1049h")
	s.Expect("size 24 80 ")
	s.Expect("ready ")
	s.Resize(50, 132)
	s.Expect("50 132 ")
	s.Send("q\n")
	s.Expect("\x1b[?1049l")
	s.Expect("step 1: 1 path changed, undo with: sandbox undo")
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d\n%s", code, s.Text())
	}
	if m := s.Modes(); m != before {
		t.Errorf("modes afterwards %+v, before %+v", m, before)
	}
	if !d.exists("key") {
		t.Error("the program's file is not there")
	}
	d.must("undo")
	if d.exists("key") {
		t.Error("undo left the program's file")
	}
}

// jobControl stops, continues and interrupts commands of the shell on s, which has just
// been told to say "begun" and to read a line, and ends it.
func jobControl(t *testing.T, s *screen.Screen) {
	t.Helper()
	s.Expect("begun\r\n")
	s.Send("\x1a")
	s.Expect("Stopped")
	s.Expect("end $y\"'\r\n")
	s.Send("fg\r")
	s.Expect("end $y\"'\r\n")
	s.Send("again\r")
	s.Expect("end again")
	s.Send("sh -c 'echo read\"\"ing; read y'\r")
	s.Expect("reading\r\n")
	s.Send("\x03")
	s.Expect("> ")
	s.Send("echo status $?\r")
	s.Expect("status 130")
	s.Send("exit 4\r")
	if code := s.Wait(); code != 4 {
		t.Errorf("exit %d, want 4", code)
	}
}

func TestRunJobControlAndInterrupt(t *testing.T) {
	d := newDesk(t)
	s := screen.On(t, d.sandbox("run", "--", "bash", "--norc", "-i"))
	s.Send("PS1='> '; echo be''gin\r")
	s.Expect("begin")
	s.Send("sh -c 'echo be\"\"gun; read y; echo \"end $y\"'\r")
	jobControl(t, s)
}

// TestD4InterruptEndsALoop: a Ctrl-C that ends a command ends the shell's loop around 'sandbox run', as natively.
func TestD4InterruptEndsALoop(t *testing.T) {
	d := newDesk(t)
	run := d.sandbox("run", "--", "sh", "-c", "echo ready; read y")
	loop := exec.Command("bash", append([]string{"-c", `for i in 1 2; do "$@"; echo "again $?"; done; echo finished`, "loop"}, run.Args...)...)
	loop.Dir, loop.Env = run.Dir, run.Env
	s := screen.On(t, loop)
	s.Expect("ready")
	s.Send("\x03")
	if code := s.Wait(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	if text := s.Text(); strings.Contains(text, "again") || strings.Contains(text, "finished") {
		t.Errorf("the loop went on: %q", text)
	}
}

func TestRunInterruptedByTheKeyboard(t *testing.T) {
	d := newDesk(t)
	s := screen.On(t, d.sandbox("run", "--", "sh", "-c", "echo x >made; echo ready; read y"))
	s.Expect("ready")
	s.Send("\x03")
	if code := s.Wait(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	d.must("undo")
	if d.exists("made") {
		t.Error("undo left the file")
	}
}

// The terminal goes away: the command ends, the session closes its step.
func TestRunHangUp(t *testing.T) {
	d := newDesk(t)
	s := screen.On(t, d.sandbox("run", "--", "sh", "-c", "trap '' HUP; echo x >made; echo ready; while :; do read y; done"))
	s.Expect("ready")
	s.HangUp()
	s.Wait()
	if out := d.must("ps", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("sessions left: %s", out)
	}
	d.must("undo")
	if d.exists("made") {
		t.Error("undo left the file")
	}
}

func TestRunSafeguardOnTheScreen(t *testing.T) {
	for _, c := range []struct {
		name, key string
		gone      bool
	}{{"allow", "y\r", true}, {"deny", "n\r", false}} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			for _, f := range []string{"a", "b", "c"} {
				d.write(f, f)
			}
			s := screen.On(t, d.sandbox("run", "--safeguard-deletes", "2", "--", "sh", "-c", "rm a b c; echo over"))
			s.Expect("[y/N] ")
			if !d.exists("b") {
				t.Error("deleted before it was allowed")
			}
			s.Send(c.key)
			s.Wait()
			if gone := !d.exists("a") && !d.exists("b") && !d.exists("c"); gone != c.gone {
				t.Errorf("deleted: %v, want %v\n%s", gone, c.gone, s.Text())
			}
			if m := s.Modes(); m.Lflag&unix.ICANON == 0 {
				t.Error("the terminal was left raw")
			}
		})
	}
}

// The user pipes the output: no pseudo-terminal, but /dev/tty is there to ask.
func TestRunSafeguardAsksOnDevTTY(t *testing.T) {
	d := newDesk(t)
	d.write("a", "a")
	cmd := d.sandbox("run", "--safeguard-deletes", "1", "--", "sh", "-c", "rm a; echo over")
	shell := exec.Command("sh", append([]string{"-c", `"$@" | cat >piped; cat piped`, "sh"}, cmd.Args...)...)
	shell.Dir, shell.Env = cmd.Dir, cmd.Env
	s := screen.On(t, shell)
	s.Expect("[y/N] ")
	s.Send("y\r")
	s.Expect("over")
	s.Wait()
	if d.exists("a") {
		t.Error("not deleted though it was allowed")
	}
}

// In the background the command runs on, without touching the terminal that
// belongs to somebody else; in front again, it gets the keyboard.
func TestRunInTheBackground(t *testing.T) {
	d := newDesk(t)
	cmd := d.sandbox()
	shell := exec.Command("bash", "--norc", "-i")
	shell.Dir, shell.Env = cmd.Dir, append(cmd.Env, "SB="+cmd.Path)
	s := screen.On(t, shell)
	s.Send("PS1='> '; \"$SB\" run -- sh -c 'echo in\"\"side; >made; read y; echo \"got $y\"' &\r")
	s.Expect("inside\r")
	s.Send("echo fore\"\"ground\r")
	s.Expect("foreground\r\n")
	s.Send("fg\r")
	s.Expect("got $y\"'\r\n")
	s.Send("answer\r")
	s.Expect("got answer")
	s.Expect("1 path changed")
	s.Expect("> ")
	s.Send("stty -a | grep -o '[-]*icanon'; exit 3\r")
	s.Expect("\ricanon")
	if code := s.Wait(); code != 3 {
		t.Errorf("exit %d", code)
	}
}

// stderr that goes to a file is not mixed with the terminal's output.
func TestRunKeepsStderrApart(t *testing.T) {
	d := newDesk(t)
	cmd := d.sandbox("run", "--", "sh", "-c", "echo to-out; echo to-err >&2; read y; echo got $y")
	shell := exec.Command("sh", append([]string{"-c", `"$@" 2>../errors`, "sh"}, cmd.Args...)...)
	shell.Dir, shell.Env = cmd.Dir, cmd.Env
	s := screen.On(t, shell)
	s.Expect("to-out")
	s.Send("x\r")
	s.Expect("got x")
	s.Wait()
	b, err := os.ReadFile(filepath.Join(d.dir, "..", "errors"))
	if err != nil || string(b) != "to-err\n" {
		t.Errorf("stderr %q, %v", b, err)
	}
}

func TestInspectWatch(t *testing.T) {
	d := newDesk(t)
	session := screen.On(t, d.sandbox("run", "--", "sh", "-c", "echo ready; read y"))
	session.Expect("ready")
	s := screen.On(t, d.sandbox("inspect", "--watch"))
	s.Expect("interceptor")
	s.Expect("safeguard")
	s.Send("q")
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d: %q", code, s.Text())
	}
	if m := s.Modes(); m.Lflag&unix.ICANON == 0 {
		t.Error("the terminal was left raw")
	}

	s = screen.On(t, d.sandbox("inspect", "--watch"))
	s.Expect("interceptor")
	session.Send("\r")
	session.Wait()
	s.Expect("the session has ended")
	s.Wait()
}

// Everything on stdout parses; what is for people goes to stderr.
func TestStdoutIsJSONOnly(t *testing.T) {
	d := newDesk(t)
	d.write("a", "a")
	d.must("run", "--", "rm", "a")
	for _, args := range [][]string{
		{"history"}, {"show"}, {"status"}, {"pending"}, {"ps"}, {"undo", "--dry-run"}, {"undo"}, {"redo"},
		{"restore", "a", "--step", "1"}, {"gc"}, {"version"}, {"doctor"},
	} {
		out := d.must(append(args, "--json")...)
		dec := json.NewDecoder(strings.NewReader(out))
		var v any
		if err := dec.Decode(&v); err != nil || dec.More() {
			t.Errorf("sandbox %v --json printed %q: %v", args, out, err)
		}
	}
}
