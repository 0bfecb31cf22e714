package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// TestAction runs the script of the GitHub action as the action does.
func TestAction(t *testing.T) {
	s := drive.New(t, nil)
	script, err := filepath.Abs(filepath.Join(module, ".github", "actions", "sandbox-run", "run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	outputs := filepath.Join(t.TempDir(), "outputs")
	folder := s.Bare(t.Context(), "version").Dir
	action := func(text string, env ...string) (string, int) {
		cmd := s.Bare(t.Context(), "version")
		cmd.Path, cmd.Args = script, []string{script}
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(drive.Program(t, "sandbox"))+":"+os.Getenv("PATH"), "GITHUB_OUTPUT="+outputs, "SANDBOX_RUN="+text)
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		return string(out), drive.ExitCode(t, err)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	}
	if out, code := action("echo 'a \"b\" $(c)' >kept\ntouch two\n"); code != 0 || !there("kept") || !there("two") {
		t.Errorf("a script: status %d\n%s", code, out)
	}
	if out, code := action("touch gone; exit 7"); code != 7 || there("gone") || !there("kept") {
		t.Errorf("a script that fails: status %d\n%s", code, out)
	}
	if out, code := action("exit 3"); code != 3 || !there("kept") {
		t.Errorf("a script that fails and changes nothing: status %d\n%s", code, out)
	}
	if out, code := action("touch stays; false", "SANDBOX_UNDO=false"); code != 1 || !there("stays") {
		t.Errorf("without undo: status %d\n%s", code, out)
	}
	if out, code := action("touch x", "SANDBOX_FLAGS=--no-such-flag"); code != 2 {
		t.Errorf("a wrong flag: status %d\n%s", code, out)
	}
	text, err := os.ReadFile(outputs)
	if want := "exit-status=0 exit-status=7 exit-status=3 exit-status=1 exit-status=2"; err != nil || strings.Join(strings.Fields(string(text)), " ") != want {
		t.Errorf("outputs %q, %v", text, err)
	}
}
