package junction

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A Folder has a junction, [Name], which leads to a directory with the files f and sub/g.
type Folder struct {
	Path string
	// Fixed: the junction cannot be removed, as under wine.
	Fixed bool
	t     testing.TB
}

// content is what the files outside hold.
const content = "theirs"

// New makes a folder, which is removed when the test ends. Tests that have one do not run at the same time.
func New(t testing.TB) *Folder {
	t.Helper()
	f := &Folder{Path: os.Getenv(Variable), t: t}
	if f.Fixed = f.Path != ""; !f.Fixed {
		f.Path = t.TempDir()
		// #nosec: both are directories of the test's own.
		if out, err := exec.Command("cmd", "/c", "mklink", "/J", f.at(Name), t.TempDir()).CombinedOutput(); err != nil {
			t.Fatalf("mklink: %v: %s", err, out)
		}
	}
	f.clear()
	t.Cleanup(f.clear)
	sub := f.at(Name, "sub")
	err := errors.Join(os.Mkdir(sub, 0o755), os.WriteFile(f.at(Name, "f"), []byte(content), 0o644), os.WriteFile(filepath.Join(sub, "g"), []byte(content), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// at is a path below the folder, which Windows follows through the junction.
func (f *Folder) at(names ...string) string {
	return filepath.Join(append([]string{f.Path}, names...)...)
}

// clear removes what is in the folder, and outside.
func (f *Folder) clear() {
	f.t.Helper()
	for _, dir := range []string{f.at(Name), f.Path} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() == Name && dir == f.Path {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// Untouched fails the test if what is outside is not as it was.
func (f *Folder) Untouched() {
	f.t.Helper()
	for dir, want := range map[string][]string{f.at(Name): {"f", "sub"}, f.at(Name, "sub"): {"g"}} {
		entries, err := os.ReadDir(dir)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if err != nil || !slices.Equal(names, want) {
			f.t.Errorf("%s has %q now, %v", dir, names, err)
		}
	}
	for _, name := range []string{f.at(Name, "f"), f.at(Name, "sub", "g")} {
		if b, err := os.ReadFile(name); err != nil || string(b) != content {
			f.t.Errorf("%s holds %q now, %v", name, b, err)
		}
	}
}
