//go:build linux

package fuse

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// hiding is a mount of a folder in which a directory, a file and what does not
// exist yet are hidden.
func hiding(t *testing.T) *mounted {
	m := mount(t, nil)
	check(t, m.Close())
	<-m.Done()
	for _, d := range []string{"a/dir/sub", "b"} {
		check(t, os.MkdirAll(filepath.Join(m.host, d), 0o755))
	}
	for _, f := range []string{"a/dir/key", "a/dir/sub/key", "a/file", "a/open", "b/open", "spare"} {
		check(t, os.WriteFile(filepath.Join(m.host, f), []byte("secret"), 0o644))
	}
	check(t, os.Link(filepath.Join(m.host, "a/file"), filepath.Join(m.host, "b/link")))
	m.remount(t, func(o *vfs.Options) { o.Hidden = []string{"a/dir", "a/file", "a/missing"} })
	return m
}

// operations are everything that can be tried on a path.
func operations(m *mounted) map[string]func(p string) error {
	spare := filepath.Join(m.mnt, "spare")
	return map[string]func(p string) error{
		"stat":   func(p string) error { _, err := os.Lstat(p); return err },
		"open":   func(p string) error { f, err := os.Open(p); f.Close(); return err },
		"create": func(p string) error { f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR, 0o644); f.Close(); return err },
		"exclude": func(p string) error {
			f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
			f.Close()
			return err
		},
		"mkdir":    func(p string) error { return os.Mkdir(p, 0o755) },
		"mkfifo":   func(p string) error { return unix.Mkfifo(p, 0o644) },
		"symlink":  func(p string) error { return os.Symlink("x", p) },
		"link":     func(p string) error { return os.Link(spare, p) },
		"linkfrom": func(p string) error { return os.Link(p, spare+"2") },
		"unlink":   unix.Unlink,
		"rmdir":    unix.Rmdir,
		"rename":   func(p string) error { return unix.Rename(p, spare+"2") },
		"over":     func(p string) error { return unix.Rename(spare, p) },
		"exchange": func(p string) error {
			return unix.Renameat2(unix.AT_FDCWD, spare, unix.AT_FDCWD, p, unix.RENAME_EXCHANGE)
		},
		"chmod":    func(p string) error { return os.Chmod(p, 0o777) },
		"truncate": func(p string) error { return os.Truncate(p, 0) },
		"utimes":   func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, make([]unix.Timespec, 2), 0) },
		"xattr":    func(p string) error { return unix.Setxattr(p, "user.x", []byte("y"), 0) },
		"inside":   func(p string) error { _, err := os.ReadFile(p + "/key"); return err },
		"chdir":    func(p string) error { _, err := os.ReadDir(p); return err },
	}
}

func (m *mounted) refuses(t *testing.T, when, path string) {
	t.Helper()
	for name, f := range operations(m) {
		if err := f(filepath.Join(m.mnt, path)); !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s: %s %s: %v", when, name, path, err)
		}
	}
}

// TestHidden: no operation reaches a hidden path, however it is called, and
// nothing that is done to it or to the kernel's cache changes that.
func TestHidden(t *testing.T) {
	m := hiding(t)
	at := func(p string) string { return filepath.Join(m.host, p) }
	for _, p := range []string{"a/dir", "a/file", "a/missing", "b/link"} {
		m.refuses(t, "at the start", p)
	}
	check(t, m.Invalidate(fsbridge.Changes{All: true}))
	m.refuses(t, "after an invalidation", "a/dir")
	m.refuses(t, "after an invalidation", "a/file")

	check(t, os.WriteFile(at("a/new"), []byte("new secret"), 0o644))
	check(t, os.Rename(at("a/new"), at("a/file")))
	check(t, os.Rename(at("a/dir"), at("a/moved")))
	check(t, os.Mkdir(at("a/dir"), 0o755))
	check(t, os.WriteFile(at("a/dir/key"), []byte("new secret"), 0o644))
	check(t, m.Changed([]string{"a/file", "a/dir", "a/moved", "a"}))
	for _, p := range []string{"a/dir", "a/file", "a/moved"} {
		m.refuses(t, "after it was replaced", p)
	}

	check(t, os.Rename(filepath.Join(m.mnt, "a"), filepath.Join(m.mnt, "c")))
	for _, p := range []string{"c/dir", "c/file", "c/moved", "c/missing"} {
		m.refuses(t, "after the directory was renamed", p)
	}
	check(t, os.Mkdir(filepath.Join(m.mnt, "a"), 0o755))
	m.refuses(t, "in a new directory of the old name", "a/file")
	if b, err := os.ReadFile(filepath.Join(m.mnt, "c/open")); err != nil || string(b) != "secret" {
		t.Errorf("what is not hidden: %q, %v", b, err)
	}
}

// TestHiddenKnown: what the kernel had come to know is refused when somebody
// outside has moved it to a hidden place.
func TestHiddenKnown(t *testing.T) {
	m := hiding(t)
	if _, err := os.ReadFile(filepath.Join(m.mnt, "b/open")); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(m.mnt, "b"), unix.O_PATH, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, os.Rename(filepath.Join(m.host, "b"), filepath.Join(m.host, "a/missing")))
	check(t, m.Invalidate(fsbridge.Changes{All: true}))
	m.refuses(t, "moved there", "a/missing")
	if f, err := unix.Openat(fd, "open", unix.O_RDONLY, 0); err == nil {
		unix.Close(f)
		t.Error("opened below a descriptor of before")
	}
}

// TestHiddenRefused: who asks for something hidden is counted, each time, by the path that he asked for; who lists the directory or asks for something else is not.
func TestHiddenRefused(t *testing.T) {
	m := hiding(t)
	if _, err := os.ReadDir(filepath.Join(m.mnt, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(m.mnt, "a/open")); err != nil {
		t.Fatal(err)
	}
	if got := m.Refused(); len(got) != 0 {
		t.Errorf("at first %v", got)
	}
	for range 3 {
		if _, err := os.Stat(filepath.Join(m.mnt, "a/dir/key")); !errors.Is(err, syscall.EACCES) {
			t.Errorf("a/dir/key: %v", err)
		}
	}
	if err := os.Mkdir(filepath.Join(m.mnt, "a/missing"), 0o755); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a/missing: %v", err)
	}
	if _, err := os.ReadFile(filepath.Join(m.mnt, "b/link")); !errors.Is(err, syscall.EACCES) {
		t.Errorf("b/link: %v", err)
	}
	got := m.Refused()
	if len(got) != 3 || got["a/dir"] < 3 || got["a/missing"] == 0 || got["b/link"] == 0 {
		t.Errorf("then %v", got)
	}
}

// TestHiddenListing: listings leave it out and are whole otherwise, also where
// a whole buffer of names is hidden.
func TestHiddenListing(t *testing.T) {
	m := mount(t, nil)
	check(t, m.Close())
	<-m.Done()
	var hide, want []string
	for i := range 3000 {
		name := fmt.Sprintf("%04d-%0200d", i, i)
		check(t, os.WriteFile(filepath.Join(m.host, name), nil, 0o644))
		if i%1000 == 0 {
			want = append(want, name)
		} else {
			hide = append(hide, name)
		}
	}
	m.remount(t, func(o *vfs.Options) { o.Hidden = hide })
	entries, err := os.ReadDir(m.mnt)
	check(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names: %.300q", len(got), got)
	}
}

// TestHiddenRefusals: only paths below the root can be hidden.
func TestHiddenRefusals(t *testing.T) {
	m := mount(t, nil)
	for _, p := range []string{".", "", "..", "../x", "/etc", "a/../.."} {
		if _, err := vfs.NewTree(vfs.Options{Root: m.root, Hidden: []string{p}}); err == nil {
			t.Errorf("%q was accepted", p)
		}
	}
}
