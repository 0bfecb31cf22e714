package wine_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/wine"
)

// output runs one of Windows' own programs, and returns what it printed and its exit status.
func output(t *testing.T, m *wine.Machine, stdin string, line ...string) (string, int) {
	t.Helper()
	cmd := m.Command(t.Context(), line[0], line[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v: %s", line, err, out)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), cmd.ProcessState.ExitCode()
}

func TestStreamsArgumentsAndStatus(t *testing.T) {
	m := wine.New(t, wine.Options{})
	if _, code := output(t, m, "", "cmd", "/c", "exit 7"); code != 7 {
		t.Errorf("exit 7 ended with %d", code)
	}
	if got, code := output(t, m, "two\r\none\r\n", "sort"); got != "one\ntwo\n" || code != 0 {
		t.Errorf("sort: %q, status %d", got, code)
	}
	// Nothing of wine's own is mixed into what a program says.
	if got, _ := output(t, m, "", "cmd", "/c", "echo out& echo err>&2"); got != "out\nerr\n" {
		t.Errorf("echo: %q", got)
	}
}

func TestDirectories(t *testing.T) {
	base := t.TempDir()
	// What is in a writable directory below a readable one can be written, and nothing else.
	open := filepath.Join(base, "shown", "open")
	if err := errors.Join(os.MkdirAll(open, 0o777), os.Chmod(open, 0o777), os.Chmod(filepath.Dir(open), 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"hidden", "shown/file"} {
		if err := os.WriteFile(filepath.Join(base, file), []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := wine.New(t, wine.Options{Visible: []string{filepath.Dir(open)}, Writable: []string{open}})
	windows := func(name string) string { return `Z:` + strings.ReplaceAll(filepath.Join(base, name), "/", `\`) }
	got, _ := output(t, m, "", "cmd", "/c", strings.Join([]string{
		"type " + windows("shown/file"), "type " + windows("hidden"), `type Z:\root\.bashrc`,
		"echo x>" + windows("shown/new"), "echo x>" + windows("shown/open/new"),
		`echo x>C:\windows\system32\kernel32.dll`, // a link into the bed
		`echo mine>C:\new&type C:\new`,
	}, "&"))
	if n := strings.Count(got, "Failed to open"); !strings.HasPrefix(got, "shown/file") || !strings.HasSuffix(got, "mine\n") || n != 2 {
		t.Errorf("said %q", got)
	}
	for name, want := range map[string]bool{"shown/new": false, "shown/open/new": true} {
		if _, err := os.Stat(filepath.Join(base, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, code := output(t, m, "", "cmd", "/c", "exit 0"); code != 0 {
		t.Errorf("the bed is damaged: %s", got)
	}
	if _, err := (&wine.Bed{}).Start(wine.Options{Visible: []string{"/tmp"}}); err == nil {
		t.Error("wine's own directory can be given")
	}
}

func TestMachinesKnowNothingOfEachOther(t *testing.T) {
	for _, name := range []string{"a", "b", "c"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := wine.New(t, wine.Options{})
			// The drive and the registry are the machine's, and stay from one program to the next.
			for _, line := range []string{`echo ` + name + `>C:\own`, `reg add HKCU\Own /v name /d ` + name} {
				if got, code := output(t, m, "", "cmd", "/c", line); code != 0 {
					t.Fatalf("%s: status %d: %s", line, code, got)
				}
			}
			if got, _ := output(t, m, "", "cmd", "/c", `type C:\own`); got != name+"\n" {
				t.Errorf("the file has %q", got)
			}
			if got, _ := output(t, m, "", "reg", "query", `HKCU\Own`); !strings.Contains(got, "REG_SZ    "+name) {
				t.Errorf("the registry has %q", got)
			}
		})
	}
}

func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	m := wine.New(t, wine.Options{Dir: dir})
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := m.Command(t.Context(), "cmd", "/c", "echo started& ping -n 10000 127.0.0.1 >nul")
	cmd.Stdout, cmd.Stderr = in, in
	if err := errors.Join(cmd.Start(), in.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	// The pipe ends when nobody has it any more: not the shell, not its child, and none of wine's own.
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a program that was killed had success")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
	if err := m.Command(t.Context(), "cmd", "/c", "ver").Run(); err == nil {
		t.Error("a program ran in a machine that had ended")
	}
}
