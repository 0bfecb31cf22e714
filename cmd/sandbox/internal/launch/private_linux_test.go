package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// runtimeDir asks for the directory, in base, and returns what the user was told.
func runtimeDir(t *testing.T, base string) (dir, told string, err error) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", base)
	l := &Launcher{Remark: func(text string) { told += text }}
	dir, err = l.RuntimeDir()
	return dir, told, err
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRuntimeDirOpened: an opened mode is put back once, and said.
func TestRuntimeDirOpened(t *testing.T) {
	base := t.TempDir()
	dir, told, err := runtimeDir(t, base)
	if err != nil || told != "" || modeOf(t, dir) != os.ModeDir|0o700 {
		t.Fatalf("%v, told %q, mode %v", err, told, modeOf(t, dir))
	}
	check(t, os.WriteFile(filepath.Join(dir, "ours"), nil, 0o600))
	for _, mode := range []os.FileMode{0o755, 0o777, 0o710, 0o777 | os.ModeSticky} {
		check(t, os.Chmod(dir, mode))
		if _, told, err = runtimeDir(t, base); err != nil || !strings.Contains(told, dir) {
			t.Errorf("mode %v: %v, told %q", mode, err, told)
		}
		if got := modeOf(t, dir); got != os.ModeDir|0o700 {
			t.Errorf("mode %v is %v now", mode, got)
		}
		if _, told, err = runtimeDir(t, base); err != nil || told != "" {
			t.Errorf("then: %v, told %q", err, told)
		}
	}
}

// TestRuntimeDirNotOurs: what is no directory of this user stays as it is, whatever a
// link there leads to.
func TestRuntimeDirNotOurs(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	check(t, os.Mkdir(target, 0o700))
	check(t, os.Chmod(target, 0o755))
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	check(t, os.Chmod(file, 0o644))
	for _, leads := range []string{target, file, "nowhere"} {
		base := t.TempDir()
		check(t, os.Symlink(leads, filepath.Join(base, "sandbox")))
		if _, _, err := runtimeDir(t, base); err == nil {
			t.Errorf("a link to %s is taken", leads)
		}
	}
	base := t.TempDir()
	check(t, os.Rename(file, filepath.Join(base, "sandbox")))
	if _, _, err := runtimeDir(t, base); err == nil {
		t.Error("a file is taken")
	}
	if modeOf(t, target) != os.ModeDir|0o755 || modeOf(t, filepath.Join(base, "sandbox")) != 0o644 {
		t.Error("a mode was changed")
	}
}

// TestRuntimeDirOfOthers: another user's directory stays as it is, and what another
// user has put into ours is not used, neither now nor the next time.
func TestRuntimeDirOfOthers(t *testing.T) {
	require.Root(t) // to make files of another user
	base := t.TempDir()
	dir := filepath.Join(base, "sandbox")
	check(t, os.Mkdir(dir, 0o700))
	check(t, os.Chmod(dir, 0o777))
	check(t, os.Chown(dir, 12345, 12345))
	if _, _, err := runtimeDir(t, base); err == nil || modeOf(t, dir) != os.ModeDir|0o777 {
		t.Errorf("%v, mode %v", err, modeOf(t, dir))
	}
	check(t, os.Chown(dir, 0, 0))
	name := filepath.Join(dir, "s.sock")
	check(t, os.Symlink("/tmp/theirs", name))
	check(t, os.Lchown(name, 12345, 12345))
	for range 2 {
		if _, _, err := runtimeDir(t, base); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error about %s", err, name)
		}
	}
	if got := modeOf(t, dir); got != os.ModeDir|0o700 {
		t.Errorf("the mode is %v", got)
	}
	check(t, os.Remove(name))
	if _, told, err := runtimeDir(t, base); err != nil || told != "" {
		t.Errorf("%v, told %q", err, told)
	}
}

// TestUnfitDirs: a variable that names no directory of use fails nothing. Another directory is taken, and one line says so.
func TestUnfitDirs(t *testing.T) {
	base := t.TempDir()
	at := func(name string, mode os.FileMode) string {
		dir := filepath.Join(base, name)
		check(t, os.Mkdir(dir, 0o700))
		check(t, os.Chmod(dir, mode))
		return dir
	}
	file := filepath.Join(base, "file")
	check(t, os.WriteFile(file, nil, 0o600))
	fit, open := at("fit", 0o755), at("open", 0o777)
	missing := filepath.Join(base, "missing")
	sockets, last := filepath.Join(fit, fmt.Sprintf("sandbox-%d", os.Getuid())), fmt.Sprintf("/tmp/sandbox-%d", os.Getuid())
	if os.Getuid() == 0 {
		sockets, last = "/run/sandbox", "/run/sandbox"
	}
	theirs := ""
	if os.Getuid() != 0 {
		theirs = at("closed", 0o500)
	}
	for _, c := range []struct{ runtime, temporary, want string }{
		{fit, missing, filepath.Join(fit, "sandbox")}, {"", fit, sockets}, {"", "", last},
		{missing, fit, sockets}, {"relative", fit, sockets}, {file, fit, sockets}, {open, fit, sockets}, {theirs, fit, sockets},
		{missing, missing, last}, {"", "relative", last}, {"", file, last}, {"", open, last}, {"", theirs, last},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.runtime)
		t.Setenv("TMPDIR", c.temporary)
		told := ""
		l := &Launcher{Remark: func(string) {}, RemarkOnce: func(text string) { told += text }}
		dir, err := l.RuntimeDir()
		if err != nil || dir != c.want {
			t.Errorf("%+v: %q, %v", c, dir, err)
		}
		for variable, value := range map[string]string{"XDG_RUNTIME_DIR": c.runtime, "TMPDIR": c.temporary} {
			looked := variable == "XDG_RUNTIME_DIR" || os.Getuid() != 0 && c.runtime != fit
			if wrong := looked && value != "" && value != fit; wrong != strings.Contains(told, variable+" is "+value+": ") {
				t.Errorf("%+v: told %q", c, told)
			}
		}
		if strings.Contains(told, "\n") || told != "" && !strings.HasSuffix(told, c.want+" is used instead") && !strings.HasSuffix(told, "; /tmp is used instead") {
			t.Errorf("%+v: told %q", c, told)
		}
	}
}
