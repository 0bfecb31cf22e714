package mediate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// tree makes a directory "old" in an empty one, and opens that.
func tree(t *testing.T) (dir string, fd int) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"old/sub/deep", "old/shut", "full/x", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"old/a": "a", "old/sub/b": "bb", "old/sub/deep/c": "ccc", "old/shut/d": "d", "file": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, "old")
	if err := errors.Join(os.Symlink("nowhere", old+"/link"), unix.Mkfifo(old+"/fifo", 0o600), os.Chmod(old+"/shut", 0o555), os.Chmod(old, 0o2750)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{"old", "new", "empty"} {
			_ = os.Chmod(filepath.Join(dir, d, "shut"), 0o755)
		}
	})
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hostfs.Close(fd) })
	return dir, fd
}

// list describes what is in a directory: modes, contents and the times of directories.
func list(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case e.IsDir() && path != root:
			text += info.ModTime().String()
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %q %d", data, info.Sys().(*syscall.Stat_t).Nlink)
		}
		rel, err := filepath.Rel(root, path)
		out[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func always() bool { return true }

var wide = relocateLimits{Names: 1000, Depth: 10, Bytes: 1 << 20}

// A renamed directory is what it was, and an empty one is replaced.
func TestDirectory(t *testing.T) {
	for _, to := range []string{"new", "empty"} {
		dir, fd := tree(t)
		want := list(t, filepath.Join(dir, "old"))
		if err := relocateDirectory(relocateEntry{fd, "old"}, relocateEntry{fd, to}, false, wide, always); err != nil {
			t.Fatal(err)
		}
		if got := list(t, filepath.Join(dir, to)); !maps.Equal(got, want) {
			t.Errorf("%s:\n%v\nwant\n%v", to, got, want)
		}
		if _, err := os.Lstat(filepath.Join(dir, "old")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the old name: %v", err)
		}
	}
}

// What fails changes nothing: neither the old directory, nor what is beside it.
func TestFailuresChangeNothing(t *testing.T) {
	calls := 0
	for name, c := range map[string]struct {
		to        string
		noReplace bool
		limits    relocateLimits
		wanted    func() bool
		want      error
	}{
		"a directory that is not empty": {"full", false, wide, always, syscall.ENOTEMPTY},
		"a file":                        {"file", false, wide, always, syscall.ENOTDIR},
		"a name that is there":          {"empty", true, wide, always, syscall.EEXIST},
		"too many names":                {"new", false, relocateLimits{Names: 7, Depth: 10, Bytes: 1 << 20}, always, syscall.EXDEV},
		"too deep":                      {"new", false, relocateLimits{Names: 1000, Depth: 1, Bytes: 1 << 20}, always, syscall.EXDEV},
		"too much":                      {"new", false, relocateLimits{Names: 1000, Depth: 10, Bytes: 6}, always, syscall.EXDEV},
		"nobody waits any more":         {"new", false, wide, func() bool { calls++; return calls < 5 }, syscall.EINTR},
	} {
		dir, fd := tree(t)
		want := list(t, dir)
		if err := relocateDirectory(relocateEntry{fd, "old"}, relocateEntry{fd, c.to}, c.noReplace, c.limits, c.wanted); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if got := list(t, dir); !maps.Equal(got, want) {
			t.Errorf("%s:\n%v\nwas\n%v", name, got, want)
		}
	}
}

// If the old directory cannot be removed, what was removed in it comes back, and the new one is gone.
func TestPutBack(t *testing.T) {
	for _, to := range []string{"new", "empty"} {
		dir, fd := tree(t)
		want := list(t, dir)
		// The old name leads to a file when the emptied directory is to be removed.
		m := mover{from: relocateEntry{fd, "file"}, to: relocateEntry{fd, to}, limits: wide, wanted: always, linked: map[hostfs.ID]bool{}}
		is, err := mountOf(fd)
		if err != nil {
			t.Fatal(err)
		}
		m.mount = is
		old, err := hostfs.OpenDirAt(fd, "old")
		if err != nil {
			t.Fatal(err)
		}
		made, err := m.begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.move(old, made); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", to, err)
		}
		_ = errors.Join(hostfs.Close(old), hostfs.Close(made))
		got := list(t, dir)
		delete(got, "empty") // it was made anew
		delete(want, "empty")
		if !maps.Equal(got, want) {
			t.Errorf("%s:\n%v\nwas\n%v", to, got, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "empty")); err != nil {
			t.Error(err)
		}
	}
}

// What is written while the directory is renamed is not lost: a file that is made, and one that takes another's place.
func TestWrittenMeanwhile(t *testing.T) {
	dir, fd := tree(t)
	old := filepath.Join(dir, "old")
	calls := 0
	err := relocateDirectory(relocateEntry{fd, "old"}, relocateEntry{fd, "new"}, false, wide, func() bool {
		if calls++; calls == 8 { // the last of all: what is above is linked already
			if err := errors.Join(os.WriteFile(old+"/late", []byte("late"), 0o644), os.WriteFile(old+"/t", []byte("newer"), 0o644), os.Rename(old+"/t", old+"/a")); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if err != nil || calls < 8 {
		t.Fatalf("%v after %d", err, calls)
	}
	for name, want := range map[string]string{"late": "late", "a": "newer"} {
		if data, err := os.ReadFile(filepath.Join(dir, "new", name)); string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// What is mounted on is left alone, also where it would be removed.
func TestMountsAreLeft(t *testing.T) {
	dir, fd := tree(t)
	want := list(t, dir)
	m := mover{from: relocateEntry{fd, "old"}, to: relocateEntry{fd, "new"}, limits: wide, wanted: always, linked: map[hostfs.ID]bool{}, mount: 1} // all of it is on another mount
	old, err := hostfs.OpenDirAt(fd, "old")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hostfs.Close(old) }()
	if err := m.fill(old, fd, 0); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("filled: %v", err)
	}
	if err := m.empty(old, fd, 0); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("emptied: %v", err)
	}
	m.temporary = "old"
	if err := m.discard(); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("discarded: %v", err)
	}
	if got := list(t, dir); !maps.Equal(got, want) {
		t.Errorf("%v\nwas\n%v", got, want)
	}
}
