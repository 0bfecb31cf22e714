package mediate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/fixture"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
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
	if err := errors.Join(os.Symlink("nowhere", old+"/link"), unix.Mkfifo(old+"/fifo", 0o600), os.Chmod(old+"/shut", 0o555), os.Chmod(old, 0o2750), fixture.NoDump(old), fixture.NoDump(old+"/sub")); err != nil {
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

// same fails the test unless the trees are equal, but for their own directories and those paths.
func same(t *testing.T, what string, want, got *treesnap.Snapshot, but ...string) {
	t.Helper()
	for _, d := range treesnap.Diff(want, got, treesnap.Options{Exclude: func(path string) bool { return path == "." || slices.Contains(but, path) }}) {
		t.Errorf("%s: %s", what, d)
	}
}

func always() bool { return true }

var wide = relocateLimits{Names: 1000, Depth: 10, Bytes: 1 << 20}

// A renamed directory is what it was, and an empty one is replaced.
func TestDirectory(t *testing.T) {
	for _, to := range []string{"new", "empty"} {
		dir, fd := tree(t)
		want := treesnap.MustTake(t, filepath.Join(dir, "old"))
		if err := relocateDirectory(relocateEntry{fd, "old"}, relocateEntry{fd, to}, false, wide, always); err != nil {
			t.Fatal(err)
		}
		same(t, to, want, treesnap.MustTake(t, filepath.Join(dir, to)))
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
		want := treesnap.MustTake(t, dir)
		if err := relocateDirectory(relocateEntry{fd, "old"}, relocateEntry{fd, c.to}, c.noReplace, c.limits, c.wanted); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		same(t, name, want, treesnap.MustTake(t, dir))
	}
}

// If the old directory cannot be removed, what was removed in it comes back, and the new one is gone.
func TestPutBack(t *testing.T) {
	for _, to := range []string{"new", "empty"} {
		dir, fd := tree(t)
		want := treesnap.MustTake(t, dir)
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
		same(t, to, want, treesnap.MustTake(t, dir), "empty") // which was made anew
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
	want := treesnap.MustTake(t, dir)
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
	same(t, "in the end", want, treesnap.MustTake(t, dir))
}
