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
	cmd := helper(d.t, "sandbox", args...)
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
trap 'stty size | tr "\n" " "' WINCH
printf 'size '; stty size | tr "\n" " "; printf 'ready '
while :; do read k && break; done
echo "$k" >key
stty sane; printf '\033[?1049l'
`)
	s := onScreen(t, d.sandbox("run", "--", "sh", "editor"))
	before := unixTermiosOfFresh(t)
	s.expect("\x1b[?1049h")
	s.expect("size 24 80 ")
	s.expect("ready ")
	s.resize(50, 132)
	s.expect("50 132 ")
	s.send("q\n")
	s.expect("\x1b[?1049l")
	s.expect("step 1: 1 path changed, undo with: sandbox undo")
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d\n%s", code, s.text())
	}
	if m := s.modes(); m != before {
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

func TestRunJobControlAndInterrupt(t *testing.T) {
	d := newDesk(t)
	s := onScreen(t, d.sandbox("run", "--", "bash", "--norc", "-i"))
	s.send("PS1='> '; echo be''gin\r")
	s.expect("begin")
	s.send("sh -c 'echo be\"\"gun; read y; echo \"end $y\"'\r")
	s.expect("begun\r\n")
	s.send("\x1a")
	s.expect("Stopped")
	s.expect("end $y\"'\r\n")
	s.send("fg\r")
	s.expect("end $y\"'\r\n")
	s.send("again\r")
	s.expect("end again")
	s.send("sh -c 'echo read\"\"ing; read y'\r")
	s.expect("reading\r\n")
	s.send("\x03")
	s.expect("> ")
	s.send("echo status $?\r")
	s.expect("status 130")
	s.send("exit 4\r")
	if code := s.wait(); code != 4 {
		t.Errorf("exit %d, want 4", code)
	}
}

func TestRunInterruptedByTheKeyboard(t *testing.T) {
	d := newDesk(t)
	s := onScreen(t, d.sandbox("run", "--", "sh", "-c", "echo x >made; echo ready; read y"))
	s.expect("ready")
	s.send("\x03")
	if code := s.wait(); code != 130 {
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
	s := onScreen(t, d.sandbox("run", "--", "sh", "-c", "trap '' HUP; echo x >made; echo ready; while :; do read y; done"))
	s.expect("ready")
	s.slave.Close()
	s.master.Close()
	s.wait()
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
			s := onScreen(t, d.sandbox("run", "--safeguard-deletes", "2", "--", "sh", "-c", "rm a b c; echo over"))
			s.expect("[y/N] ")
			if !d.exists("b") {
				t.Error("deleted before it was allowed")
			}
			s.send(c.key)
			s.wait()
			if gone := !d.exists("a") && !d.exists("b") && !d.exists("c"); gone != c.gone {
				t.Errorf("deleted: %v, want %v\n%s", gone, c.gone, s.text())
			}
			if m := s.modes(); m.Lflag&unix.ICANON == 0 {
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
	s := onScreen(t, shell)
	s.expect("[y/N] ")
	s.send("y\r")
	s.expect("over")
	s.wait()
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
	s := onScreen(t, shell)
	s.send("PS1='> '; \"$SB\" run -- sh -c 'echo in\"\"side; >made; read y; echo \"got $y\"' &\r")
	s.expect("inside\r")
	s.send("echo fore\"\"ground\r")
	s.expect("foreground\r\n")
	s.send("fg\r")
	s.expect("got $y\"'\r\n")
	s.send("answer\r")
	s.expect("got answer")
	s.expect("1 path changed")
	s.expect("> ")
	s.send("stty -a | grep -o '[-]*icanon'; exit 3\r")
	s.expect("\ricanon")
	if code := s.wait(); code != 3 {
		t.Errorf("exit %d", code)
	}
}

// stderr that goes to a file is not mixed with the terminal's output.
func TestRunKeepsStderrApart(t *testing.T) {
	d := newDesk(t)
	cmd := d.sandbox("run", "--", "sh", "-c", "echo to-out; echo to-err >&2; read y; echo got $y")
	shell := exec.Command("sh", append([]string{"-c", `"$@" 2>../errors`, "sh"}, cmd.Args...)...)
	shell.Dir, shell.Env = cmd.Dir, cmd.Env
	s := onScreen(t, shell)
	s.expect("to-out")
	s.send("x\r")
	s.expect("got x")
	s.wait()
	b, err := os.ReadFile(filepath.Join(d.dir, "..", "errors"))
	if err != nil || string(b) != "to-err\n" {
		t.Errorf("stderr %q, %v", b, err)
	}
}

func TestInspectWatch(t *testing.T) {
	d := newDesk(t)
	session := onScreen(t, d.sandbox("run", "--", "sh", "-c", "echo ready; read y"))
	session.expect("ready")
	s := onScreen(t, d.sandbox("inspect", "--watch"))
	s.expect("interceptor")
	s.expect("safeguard")
	s.send("q")
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %q", code, s.text())
	}
	if m := s.modes(); m.Lflag&unix.ICANON == 0 {
		t.Error("the terminal was left raw")
	}

	s = onScreen(t, d.sandbox("inspect", "--watch"))
	s.expect("interceptor")
	session.send("\r")
	session.wait()
	s.expect("the session has ended")
	s.wait()
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
