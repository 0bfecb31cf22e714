package wine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/kit/wine"
)

// onConsole are the tests of the console that need one, and those of what it tells.
var onConsole = []string{
	"TestConsoleBreak", "TestConsoleCtrlC", "TestConsoleEvents", "TestConsoleEventsAfterTheJob",
	"TestConsoleIsRawInsideAndRestored", "TestConsoleOfAnotherSize", "TestEarlySignal", "TestTypedKeys",
}

// TestConsole runs them on a terminal: wine makes it the program's console.
func TestConsole(t *testing.T) {
	wine.New(t, wine.Options{}) // the bed is made here, or the reason is told why there is none
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	launcher, program := filepath.Join(t.TempDir(), "wine"), filepath.Join(t.TempDir(), "console.exe")
	for _, args := range [][]string{
		{"build", "-o", launcher, "./tests/cmd/wine"},
		{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program, "./cmd/sandbox/internal/console"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if args[0] == "test" {
			cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	s := screen.On(t, exec.Command(launcher, "-limit", limit.String(), program, "-test.v", "-test.run=^("+strings.Join(onConsole, "|")+")$"))
	code := s.Wait()
	text := s.Text()
	for _, test := range onConsole {
		if !strings.Contains(text, "--- PASS: "+test+" ") {
			t.Errorf("%s did not pass", test)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("exit %d\n%s", code, text)
	}
}

// typed runs a command on a console, which does something when a line was typed: the console is its terminal, with its keys and its size.
func (w *windows) typed(does string) {
	w.t.Helper()
	cmd := w.command(w.t.Context(), "run", "--", "sh", "-c", `tty; echo "$TERM $(stty size)"; read x; `+does+`; echo "got $x"; exit 7`)
	s := screen.OnStarted(w.t, cmd.Cmd, cmd.Start)
	s.Expect("/dev/pts/")
	s.Expect("xterm-256color 24 80")
	s.Send("what is typed\r")
	s.Expect("got what is typed")
	s.Expect("changed, undo with") // the step
	if code := s.Wait(); code != 7 {
		w.t.Errorf("exit status %d: %s", code, s.Text())
	}
}
