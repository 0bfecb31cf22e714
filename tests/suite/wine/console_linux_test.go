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

// TestConsole runs the tests of the console that need one on a terminal: wine makes it the program's console.
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
	cmd := exec.Command(launcher, "-limit", limit.String(), program, "-test.v", "-test.run=Console|TypedKeys")
	cmd.Env = append(os.Environ(), "TERM=xterm")
	s := screen.On(t, cmd)
	code := s.Wait()
	text := s.Text()
	for _, test := range []string{"TestConsoleIsRawInsideAndRestored", "TestConsoleOfAnotherSize", "TestTypedKeys"} {
		if !strings.Contains(text, "--- PASS: "+test) {
			t.Errorf("%s did not pass", test)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("exit %d\n%s", code, text)
	}
}
