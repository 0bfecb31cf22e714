package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/wine"
)

// build returns the program.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "wine")
	if out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return file
}

func TestStatus(t *testing.T) {
	wine.New(t, wine.Options{}) // or there is no wine
	program := build(t)
	for _, c := range []struct {
		line   string
		status int
		stderr string
	}{
		{"cmd /c exit 7", 7, ""},
		{"cmd /c type go.mod", 1, "Failed to open"}, // it stands in the module's root, and we do not
		{"cmd /c type ..\\..\\..\\go.mod", 0, ""},
		{"-limit 1ns cmd /c exit 7", 124, "wine: cmd ran for more than 1ns\n"},
		{"/nowhere/x.exe", 125, "wine: stat /nowhere/x.exe: no such file or directory\n"},
		{"", 125, "usage: "},
	} {
		var stderr bytes.Buffer
		cmd := exec.Command(program, strings.Fields(c.line)...)
		cmd.Stderr = &stderr
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(stderr.String(), c.stderr) || c.stderr == "" && stderr.Len() > 0 {
			t.Errorf("%q: status %d, want %d; it said %q", c.line, got, c.status, stderr.String())
		}
	}
}

func TestWhatIsMissing(t *testing.T) {
	wine.New(t, wine.Options{}) // or there is no root
	var stderr bytes.Buffer
	cmd := exec.Command(build(t), "cmd", "/c", "ver")
	cmd.Env = []string{"XDG_CACHE_HOME=" + t.TempDir(), "PATH=/nowhere"}
	cmd.Stderr = &stderr
	_ = cmd.Run()
	want := "wine: mmdebstrap makes the chroot that wine runs in, and is missing: apt-get install mmdebstrap\n"
	if cmd.ProcessState.ExitCode() != 125 || stderr.String() != want {
		t.Errorf("status %d, it said %q, want %q", cmd.ProcessState.ExitCode(), stderr.String(), want)
	}
}

func TestItsProcessesEndWithIt(t *testing.T) {
	wine.New(t, wine.Options{})
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(build(t), "cmd", "/c", "echo started& ping -n 10000 127.0.0.1 >nul")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = in, in
	if err := errors.Join(cmd.Start(), in.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The pipe ends when none of those that it started has it any more.
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
}
