package wine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
	"github.com/codeagent/sandbox/tests/kit/wine"
)

// patience is for one command, with the boot of an emulated machine in it.
const patience = 5 * time.Minute

// windows is sandbox.exe in a folder of drive C:.
type windows struct {
	t       *testing.T
	m       *wine.Machine
	program string
	root    string // drive C: on the host
	qemu    string
}

// newWindows puts what sandbox.exe needs where it looks for it.
func newWindows(t *testing.T) *windows {
	t.Helper()
	qemu := require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	images := guestimage.Cache(t)
	m := wine.New(t, wine.Options{})
	root, err := m.HostPath(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	w := &windows{t: t, m: m, root: root}
	if w.qemu, err = m.Outside(wine.Build(t, "tests/cmd/outside"), qemu); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "sandbox.exe")
	build := exec.Command("go", "build", "-trimpath", "-tags", "embedguest", "-ldflags", "-s -w", "-o", exe, "github.com/codeagent/sandbox/cmd/sandbox")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build for Windows: %v: %s", err, out)
	}
	w.put(exe, `C:\sandbox.exe`)
	for _, name := range []string{"base.cpio", "kernel", "manifest.json"} {
		w.put(filepath.Join(images, "sandbox", "guest", "amd64", name), `C:\images\sandbox\guest\amd64\`+name)
	}
	w.text(`C:\settings\codeagent\codeagent.toml`, fmt.Sprintf("[vm]\nqemu = '%s'\nacceleration = 'tcg'\nmemory = '256MiB'\nboot_timeout = '4m'\n", w.qemu))
	return w
}

// host is where a path of Windows is here, and its directory.
func (w *windows) host(path string) string {
	w.t.Helper()
	host, err := w.m.HostPath(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(host), 0o777)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for dir := filepath.Dir(host); len(dir) > len(w.root); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o777) // programs run as nobody
	}
	return host
}

func (w *windows) put(from, to string) {
	w.t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(w.host(to), b, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *windows) text(path, content string) {
	w.t.Helper()
	if err := os.WriteFile(w.host(path), []byte(content), 0o666); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chmod(w.host(path), 0o666); err != nil {
		w.t.Fatal(err)
	}
}

// sandbox runs sandbox.exe in C:\project.
func (w *windows) sandbox(args ...string) (string, int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.m.Command(ctx, "cmd", append([]string{"/c", `C:\in.cmd`}, args...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("sandbox %v: %v\n%s", args, err, out)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

func (w *windows) must(args ...string) string {
	w.t.Helper()
	out, code := w.sandbox(args...)
	if code != 0 {
		w.t.Fatalf("sandbox %v: exit status %d\n%s", args, code, out)
	}
	return out
}

// TestUndoOnWindows: a Linux guest removes everything in a folder of drive C:, and Windows' program puts it back.
func TestUndoOnWindows(t *testing.T) {
	w := newWindows(t)
	w.text(`C:\in.cmd`, "@cd /d C:\\project\r\n@set APPDATA=C:\\settings\r\n@set LOCALAPPDATA=C:\\images\r\n@C:\\sandbox.exe %*\r\n")
	for i := range 20 {
		w.text(fmt.Sprintf(`C:\project\src\deep\file-%d.txt`, i), strings.Repeat(fmt.Sprintln("line", i), 100*i))
		w.text(fmt.Sprintf(`C:\project\f%d`, i), fmt.Sprintln(i))
	}
	project := w.host(`C:\project`)
	if err := os.Chmod(project, 0o777); err != nil {
		t.Fatal(err)
	}
	before := treesnap.MustTake(t, project)
	t.Log(w.must("run", "--", "sh", "-c", "ls | wc -l; rm -rf *; ls -A | wc -l; echo new > made"))
	if left, err := os.ReadDir(project); err != nil || len(left) != 1 {
		t.Errorf("the host has %v, %v", left, err)
	}
	t.Log(w.must("history"))
	t.Log(w.must("undo"))
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, project), treesnap.Options{})
}
