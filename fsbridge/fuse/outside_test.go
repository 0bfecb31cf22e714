//go:build linux

package fuse

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func watchedAll(o *vfs.Options) { o.OnList = func(string, hostfs.ID) bool { return true } }

// TestChangedKeepsTimes: edits from outside that leave size and modification time
// as they were show once the watcher told of them: modes, links and content.
func TestChangedKeepsTimes(t *testing.T) {
	m := mount(t, watchedAll)
	p, h := filepath.Join(m.mnt, "d"), filepath.Join(m.host, "d")
	check(t, os.Mkdir(h, 0o755))
	for _, name := range []string{"mode", "link", "content"} {
		check(t, os.WriteFile(h+"/"+name, []byte("one"), 0o644))
		_, err := os.ReadFile(p + "/" + name)
		check(t, err)
		_, err = os.Stat(p + "/" + name) // the access time has changed
		check(t, err)
	}
	back := func(path string, edit func(path string) error) {
		t.Helper()
		st, err := os.Stat(path)
		check(t, err)
		check(t, edit(path))
		check(t, os.Chtimes(path, st.ModTime(), st.ModTime()))
	}
	back(h+"/content", func(path string) error { return os.WriteFile(path, []byte("two"), 0o644) })
	check(t, os.Link(h+"/link", h+"/new"))
	check(t, os.Chmod(h+"/mode", 0o755))
	check(t, m.Changed([]string{"d/mode", "d/content", "d/new"}))
	var st unix.Stat_t
	check(t, unix.Stat(p+"/mode", &st))
	if st.Mode&0o777 != 0o755 {
		t.Errorf("mode %o", st.Mode)
	}
	check(t, unix.Stat(p+"/link", &st))
	if st.Nlink != 2 {
		t.Errorf("%d links", st.Nlink)
	}
	if b, err := os.ReadFile(p + "/content"); err != nil || string(b) != "two" {
		t.Errorf("read %q, %v", b, err)
	}
}

// TestChangedListing: a name that is made from outside is listed, even if the
// directory's times are put back before the watcher tells of it.
func TestChangedListing(t *testing.T) {
	m := mount(t, watchedAll)
	p, h := filepath.Join(m.mnt, "d"), filepath.Join(m.host, "d")
	check(t, os.Mkdir(h, 0o755))
	check(t, os.WriteFile(h+"/a", nil, 0o644))
	_ = listed(t, p)
	_ = listed(t, p)
	st, err := os.Stat(h)
	check(t, err)
	check(t, os.WriteFile(h+"/b", nil, 0o644))
	check(t, os.Chtimes(h, st.ModTime(), st.ModTime()))
	check(t, m.Changed([]string{"d/b"}))
	if got := listed(t, p); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("listed %q", got)
	}
}

// TestChangedByAnotherName: an edit from outside through a name that nobody inside
// has looked up shows under the names that somebody has.
func TestChangedByAnotherName(t *testing.T) {
	m := mount(t, watchedAll)
	p, h := filepath.Join(m.mnt, "f"), filepath.Join(m.host, "f")
	check(t, os.WriteFile(h, []byte("one"), 0o644))
	check(t, os.Link(h, h+"2"))
	_, err := os.ReadFile(p)
	check(t, err)
	_, err = os.Stat(p)
	check(t, err)
	check(t, os.WriteFile(h+"2", []byte("longer"), 0o644))
	check(t, m.Changed([]string{"f2"}))
	if b, err := os.ReadFile(p); err != nil || string(b) != "longer" {
		t.Errorf("read %q, %v", b, err)
	}
}

// TestOwnIsNoNews: what the workload does to a file's names and attributes drops
// no page of it.
func TestOwnIsNoNews(t *testing.T) {
	m := mount(t, watchedAll)
	p := filepath.Join(m.mnt, "f")
	check(t, os.WriteFile(p, []byte("one"), 0o644))
	check(t, os.Mkdir(p+"dir", 0o755))
	var st unix.Stat_t
	id := idOf(t, filepath.Join(m.host, "f"))
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"chmod", func() error { return os.Chmod(p, 0o600) }},
		{"link", func() error { return os.Link(p, p+"2") }},
		{"unlink", func() error { return os.Remove(p + "2") }},
		{"setxattr", func() error { return unix.Setxattr(p, "user.x", []byte("x"), 0) }},
		{"rename", func() error { return os.Rename(p, p+"3") }},
		{"rename back", func() error { return os.Rename(p+"3", p) }},
		{"rename a directory", func() error { return os.Rename(p+"dir", p+"dir2") }},
	} {
		now := p
		if c.name == "rename back" {
			now = p + "3"
		}
		_, err := os.ReadFile(now)
		check(t, err)
		check(t, unix.Stat(now, &st))
		check(t, c.do())
		o := m.tree.Edited([]fsbridge.DirChanges{{Names: []string{"f", "f3", "fdir2"}}}, nil)
		if o.Nodes[m.tree.NodeID(id)] || c.name == "rename a directory" && len(o.Nodes) > 0 {
			t.Errorf("%s: drop %v", c.name, o.Nodes)
		}
	}
}

// TestOwnRemovalIsNoNews: the kernel is not told of a name that the workload removed. If one is made
// there again, inside or outside, its removal from outside is told.
func TestOwnRemovalIsNoNews(t *testing.T) {
	m := mount(t, watchedAll)
	p, h := filepath.Join(m.mnt, "f"), filepath.Join(m.host, "f")
	write := func(path string) { check(t, os.WriteFile(path, nil, 0o644)) }
	stat := func() {
		_, err := os.Stat(p)
		check(t, err)
	}
	for _, c := range []struct {
		name string
		do   func()
		told bool
	}{
		{"unlink", func() { write(p); check(t, os.Remove(p)) }, false},
		{"rmdir", func() { check(t, os.Mkdir(p, 0o755)); check(t, os.Remove(p)) }, false},
		{"rename", func() { write(p); check(t, os.Rename(p, p+"2")) }, false},
		{"outside", func() { write(p); check(t, os.Remove(h)) }, true},
		{"made inside", func() { write(p); check(t, os.Remove(p)); write(p); check(t, os.Remove(h)) }, true},
		{"made outside", func() {
			write(p)
			check(t, os.Remove(p))
			check(t, m.Changed([]string{"f"}))
			write(h)
			check(t, m.Changed([]string{"f"}))
			stat()
			check(t, os.Remove(h))
		}, true},
	} {
		_, _ = os.ReadDir(m.mnt) // the directory is watched
		c.do()
		o := m.tree.Edited([]fsbridge.DirChanges{{Names: []string{"f"}}}, nil)
		if told := len(o.Names) > 0; told != c.told {
			t.Errorf("%s: told of %v", c.name, o.Names)
		}
		check(t, m.Invalidate(fsbridge.Changes{All: true}))
	}
}

// TestChangedBesideOwn: a name that is made from outside is listed, even if the
// workload changes the attributes of another before the watcher tells of it.
func TestChangedBesideOwn(t *testing.T) {
	for name, own := range map[string]func(path string) error{
		"chmod":    func(path string) error { return os.Chmod(path, 0o600) },
		"setxattr": func(path string) error { return unix.Setxattr(path, "user.x", []byte("x"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			m := mount(t, watchedAll)
			p, h := filepath.Join(m.mnt, "d"), filepath.Join(m.host, "d")
			check(t, os.Mkdir(h, 0o755))
			check(t, os.WriteFile(h+"/a", nil, 0o644))
			_ = listed(t, p)
			_ = listed(t, p)
			check(t, os.WriteFile(h+"/b", nil, 0o644))
			check(t, own(p+"/a"))
			check(t, m.Changed([]string{"d/b"}))
			if got := listed(t, p); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("listed %q", got)
			}
		})
	}
}

// TestChangedWhileOpen: an edit from outside of a file that the workload has open
// for writing, but does not write to, shows after it was closed.
func TestChangedWhileOpen(t *testing.T) {
	m := mount(t, watchedAll)
	p, h := filepath.Join(m.mnt, "f"), filepath.Join(m.host, "f")
	check(t, os.WriteFile(h, []byte("one"), 0o644))
	fd, err := unix.Open(p, unix.O_RDWR|unix.O_CLOEXEC, 0)
	check(t, err)
	if pread(t, fd) != "one" {
		t.Fatal("cannot read")
	}
	var st unix.Stat_t
	check(t, unix.Fstat(fd, &st)) // reading has changed the access time
	check(t, os.WriteFile(h, []byte("two"), 0o644))
	n := m.Tree().Object(idOf(t, h))
	check(t, unix.Close(fd))
	actortest.Eventually(t, "the file is closed", func() bool { return n.Place.Handles() == 0 })
	check(t, m.Changed([]string{"f"}))
	fd, err = unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	if got := pread(t, fd); got != "two" {
		t.Errorf("read %q", got)
	}
}

// TestChangedAfterClose: a watcher that tells of something after the end leaves no
// directory open.
func TestChangedAfterClose(t *testing.T) {
	m := mount(t, watchedAll)
	h := filepath.Join(m.host, "d")
	check(t, os.Mkdir(h, 0o755))
	check(t, os.WriteFile(h+"/f", nil, 0o644))
	_, err := os.Stat(filepath.Join(m.mnt, "d/f"))
	check(t, err)
	check(t, m.Close())
	<-m.Done()
	check(t, m.ChangedIn([]fsbridge.DirChanges{{ID: idOf(t, h), Path: "d", Names: []string{"f"}}}))
	if n := m.Tree().OpenDirs(); n > 0 {
		t.Errorf("%d directories are open", n)
	}
}

// holding holds the creation of held/made, and expects there and in dirs that there
// is no file new, which then is made from outside. The bridge knows of it if told.
func holding(t *testing.T, told bool, dirs ...string) (m *mounted, release func()) {
	t.Helper()
	held, released := make(chan struct{}), make(chan struct{})
	r := &recorder{gate: func(op *fsbridge.Op) error {
		if op.Kind == fsbridge.OpCreate {
			if told && op.Held != nil {
				op.Held(op.Request)
			}
			close(held)
			<-released
		}
		return nil
	}}
	m = mount(t, func(o *vfs.Options) { watchedAll(o); o.Hooks = r })
	dirs = append(dirs, "held")
	for _, d := range dirs {
		check(t, os.Mkdir(filepath.Join(m.host, d), 0o755))
		if _, err := os.Stat(filepath.Join(m.mnt, d, "new")); !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	made := make(chan error, 1)
	go func() { made <- exec.Command("touch", filepath.Join(m.mnt, "held/made")).Run() }()
	<-held
	for _, d := range dirs {
		check(t, os.WriteFile(filepath.Join(m.host, d, "new"), nil, 0o644))
	}
	release = sync.OnceFunc(func() { close(released); check(t, <-made) })
	t.Cleanup(release)
	return m, release
}

// TestChangedWhileHeld: that the kernel cannot be told of a directory because an
// operation in it is held does not keep it from being told of others later.
func TestChangedWhileHeld(t *testing.T) {
	m, release := holding(t, false, "d", "e")
	check(t, m.Changed([]string{"held/new"}))
	check(t, m.Changed([]string{"d/new"}))
	done := make(chan error, 1)
	go func() {
		done <- m.Invalidate(fsbridge.Changes{List: []fsbridge.Change{{Dir: idOf(t, filepath.Join(m.host, "e")), Name: "new"}}})
	}()
	for _, p := range []string{"d/new", "e/new"} {
		within(t, p, func() {
			if p == "e/new" {
				check(t, <-done)
			}
			if _, err := os.Stat(filepath.Join(m.mnt, p)); err != nil {
				t.Error(err)
			}
		})
	}
	release()
	actortest.Eventually(t, "the rest shows", func() bool {
		_, err := os.Stat(filepath.Join(m.mnt, "held/new"))
		return err == nil
	})
}

// TestChangedInHeld: a kernel that can be told to look up all names again is not
// asked to forget one where it would wait for the held operation.
func TestChangedInHeld(t *testing.T) {
	m, _ := holding(t, true)
	if m.incEpoch() != nil {
		return // older than 6.16
	}
	held := m.Tree().NodeID(idOf(t, filepath.Join(m.host, "held")))
	actortest.Eventually(t, "the directory is known to be held", func() bool { return m.Tree().HeldIn(held) })
	check(t, m.Changed([]string{"held/new"}))
	names := map[uint64][]string{held: {"new"}}
	if m.leaveOutHeld(names); len(names) > 0 {
		t.Errorf("the kernel would be told of %v", names)
	}
	if n := m.stuck.Load(); n > 0 {
		t.Errorf("%d threads are stuck", n)
	}
}

// TestChangedBesideHeld: nor from being told of others at the same time.
func TestChangedBesideHeld(t *testing.T) {
	dirs := []string{"b", "c", "d", "e", "f"}
	m, _ := holding(t, false, dirs...)
	changed := []string{"held/new"}
	for _, d := range dirs {
		changed = append(changed, d+"/new")
	}
	check(t, m.Changed(changed))
	for _, p := range changed[1:] {
		if _, err := os.Stat(filepath.Join(m.mnt, p)); err != nil {
			t.Error(err)
		}
	}
}

// TestMovedOutside: who has a directory open that somebody outside moves goes on in it, and below it, as without a bridge; the new path
// leads to the same one. Out of the folder, and into what is hidden, nobody follows.
func TestMovedOutside(t *testing.T) {
	m := mount(t, watchedAll)
	check(t, m.Close())
	<-m.Done()
	at := func(p string) string { return filepath.Join(m.host, p) }
	for _, d := range []string{"a/b/c", "n/o", "hidden", "gone/c", "kept/c", "only/d"} {
		check(t, os.MkdirAll(at(d), 0o755))
	}
	m.remount(t, func(o *vfs.Options) {
		watchedAll(o)
		o.Hidden = []string{"hidden"}
	})
	open := func(p string) int {
		t.Helper()
		fd, err := unix.Open(filepath.Join(m.mnt, p), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		check(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		_ = listed(t, filepath.Join(m.mnt, p))
		return fd
	}
	b, c, gone, kept := open("a/b"), open("a/b/c"), open("gone/c"), open("kept/c")
	only, err := unix.Open(filepath.Join(m.mnt, "only/d"), unix.O_PATH|unix.O_DIRECTORY, 0) // as a shell that has gone there, and done nothing
	check(t, err)
	t.Cleanup(func() { _ = unix.Close(only) })
	outside := t.TempDir()
	check(t, os.Rename(at("a/b"), at("n/o/bb"))) // nobody inside knows n and o
	check(t, os.Rename(at("only/d"), at("n/o/dd")))
	check(t, os.Rename(at("gone"), outside+"/gone"))
	check(t, os.Rename(at("kept"), at("hidden/kept")))
	for _, p := range []string{outside + "/gone/c/new", at("hidden/kept/c/new")} {
		check(t, os.WriteFile(p, nil, 0o644))
	}
	check(t, m.Changed([]string{"a/b", "gone", "kept", "only/d", "n/o/bb", "n/o/dd", "hidden/kept"}))

	for _, dir := range []int{b, c, only} {
		check(t, unix.Mkdirat(dir, "made", 0o755))
		check(t, unix.Renameat(dir, "made", dir, "renamed"))
		check(t, unix.Fstatat(dir, "renamed", new(unix.Stat_t), 0))
		check(t, unix.Fstatat(dir, "..", new(unix.Stat_t), 0))
	}
	check(t, os.WriteFile(filepath.Join(m.mnt, "n/o/bb/c/file"), []byte("x"), 0o644))
	fd, err := unix.Openat(c, "file", unix.O_RDONLY, 0)
	check(t, err)
	check(t, unix.Close(fd))
	for _, p := range []string{"n/o/bb/renamed", "n/o/bb/c/renamed", "n/o/bb/c/file", "n/o/dd/renamed"} {
		if _, err := os.Lstat(at(p)); err != nil {
			t.Error(err)
		}
	}
	if err := os.Mkdir(filepath.Join(m.mnt, "a/b"), 0o755); err != nil { // the old name is free
		t.Error(err)
	}
	for name, dir := range map[string]int{"out of the folder": gone, "into what is hidden": kept} {
		if err := unix.Fstatat(dir, "new", new(unix.Stat_t), 0); err == nil {
			t.Errorf("looked into a directory that was moved %s", name)
		}
		if err := unix.Mkdirat(dir, "made", 0o755); err == nil {
			t.Errorf("made in a directory that was moved %s", name)
		}
	}
	for _, p := range []string{outside + "/gone/c/made", at("hidden/kept/c/made")} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s was made", p)
		}
	}
}
