package mediate

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// waysList makes a list of directories below a new one, which it returns.
func waysList(t *testing.T, names ...string) (*wayList, string) {
	t.Helper()
	base := t.TempDir()
	l := &wayList{}
	for _, name := range names {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		dir := os.NewFile(uintptr(fd), path)
		t.Cleanup(func() { _ = dir.Close() })
		if err := l.Take([]*os.File{dir}); err != nil {
			t.Fatal(err)
		}
	}
	return l, base
}

// TestOf: a path is found by whole names, in the innermost directory that it begins with.
func TestOf(t *testing.T) {
	l, base := waysList(t, "home", "home/src/work")
	for path, want := range map[string][2]string{
		"home": {"home", ""}, "home/": {"home", ""}, "home/src/worker/f": {"home", "src/worker/f"}, "homes": {}, "": {}, "other": {},
		"home/src/work": {"home/src/work", ""}, "home/src/work//a/../b": {"home/src/work", "a/../b"}, "home/../x": {"home", "../x"},
	} {
		dir, rest := l.Of([]byte(base + "/" + path))
		got := ""
		if dir >= 0 {
			text, _ := rawPathOf(dir)
			got, _ = filepath.Rel(base, text)
		}
		if got != want[0] || string(rest) != want[1] {
			t.Errorf("%s: %q, %q", path, got, rest)
		}
	}
}

// TestLeads: what comes before a directory leads to it, by whole names, and a directory is known by what it is.
func TestLeads(t *testing.T) {
	l, base := waysList(t, "home/src/work")
	for path, want := range map[string][2]bool{"": {false, true}, "/home": {false, true}, "/home/src": {false, true}, "/home/sr": {}, "/home/src/work": {true, true}, "/home/src/work/a": {}} {
		if dir, leads := l.Leads(base + path); dir >= 0 != want[0] || leads != want[1] {
			t.Errorf("%s: %d, %v", path, dir, leads)
		}
	}
	for path, want := range map[string]bool{"home": false, "home/src/work": true} {
		var is rawInfo
		if errno := rawLook(unix.AT_FDCWD, rawName(filepath.Join(base, path)+"\x00"), &is); errno != 0 {
			t.Fatal(errno)
		}
		if _, ok := l.At(&is); ok != want {
			t.Errorf("%s: %v", path, ok)
		}
	}
}

// TestEnter: as many as may are let in, and one more when one has left; all, where nothing lies behind a gate.
func TestEnter(t *testing.T) {
	l, _ := waysList(t, "home")
	for range mostWays {
		if !l.Enter() {
			t.Fatal("refused too soon")
		}
	}
	if l.Enter() {
		t.Error("one too many")
	}
	l.Leave()
	if !l.Enter() {
		t.Error("refused although one has left")
	}
	for range mostWays + 1 {
		if !new(wayList).Enter() {
			t.Error("refused although nothing lies behind a gate")
		}
	}
}
