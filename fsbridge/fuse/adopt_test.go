//go:build linux

package fuse

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// adopter is an Interceptor that retains what is removed, as the undo log
// does: it renames it into a folder beside, or links what a rename replaces.
func adopter(t *testing.T, blobs string) *recorder {
	fd, err := unix.Open(blobs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	var next atomic.Int64
	held := func(id hostfs.ID) (n int) {
		entries, err := os.ReadDir(blobs)
		for _, e := range entries {
			if st, serr := hostfs.StatAt(fd, e.Name()); serr == nil && st.ID == id {
				n++
			}
		}
		if err != nil {
			t.Error(err)
		}
		return n
	}
	return &recorder{held: held, remove: func(op *fsbridge.Op) (bool, error) {
		name := fmt.Sprint(next.Add(1))
		switch {
		case op.Kind == fsbridge.OpUnlink, op.Kind == fsbridge.OpRmdir:
			return true, hostfs.RenameAt(op.DirFD, op.Name, fd, name, 0)
		case op.Kind == fsbridge.OpRename && op.Victim != nil && op.Victim.Type == syscall.S_IFREG && op.Flags == 0:
			return false, hostfs.LinkAt(op.NewDirFD, op.NewName, fd, name)
		}
		return false, nil
	}}
}

// TestAdopted: an open file that was unlinked is as on any file system, both
// when it is freed and when the log retains it (which the host counts as a
// link), and so is one that a rename replaced.
func TestAdopted(t *testing.T) {
	remove := map[string]func(p func(string) string) error{
		"unlink": func(p func(string) string) error { return os.Remove(p("f")) },
		"rename": func(p func(string) string) error { return os.Rename(p("other"), p("f")) },
	}
	for _, adopt := range []bool{false, true} {
		for how, remove := range remove {
			t.Run(fmt.Sprintf("%s, adopted %v", how, adopt), func(t *testing.T) {
				m := mount(t, func(o *vfs.Options) {
					o.Hooks = new(recorder)
					if adopt {
						o.Hooks = adopter(t, t.TempDir())
					}
				})
				p := func(n string) string { return filepath.Join(m.mnt, n) }
				check(t, os.WriteFile(filepath.Join(m.host, "f"), []byte("content"), 0o644))
				check(t, os.WriteFile(filepath.Join(m.host, "other"), []byte("other"), 0o644))
				f, err := os.OpenFile(p("f"), os.O_RDWR, 0)
				check(t, err)
				defer f.Close()
				n := m.Tree().Object(idOf(t, filepath.Join(m.host, "f")))
				check(t, remove(p))
				unlinkedIsWhole(t, f)
				if _, _, ok := n.Place.Binding(); ok {
					t.Error("the place still has a name")
				}
				fd, err := n.Place.Open(unix.O_RDONLY)
				check(t, err)
				if got := pread(t, fd); got != "CONTENT" {
					t.Errorf("the log reads %q", got)
				}
				hostfs.Close(fd)
			})
		}
	}
}

// unlinkedIsWhole uses an open file, with the content "content", that has no
// name any more in every way that still works.
func unlinkedIsWhole(t *testing.T, f *os.File) {
	t.Helper()
	fd := int(f.Fd())
	var st unix.Stat_t
	check(t, unix.Fstat(fd, &st))
	if st.Nlink != 0 || st.Size != 7 {
		t.Errorf("nlink %d, size %d; want 0, 7", st.Nlink, st.Size)
	}
	check(t, unix.Fchmod(fd, 0o600))
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
	check(t, err)
	defer again.Close()
	_, err = again.WriteAt([]byte("CONTENT"), 0)
	check(t, err)
	if got := pread(t, fd); got != "CONTENT" {
		t.Errorf("read %q", got)
	}
	check(t, unix.Fsetxattr(fd, "user.a", []byte("b"), 0))
	check(t, f.Truncate(100))
	check(t, f.Truncate(7))
	check(t, unix.Fstat(fd, &st))
	if st.Nlink != 0 || st.Mode&0o7777 != 0o600 {
		t.Errorf("nlink %d, mode %o; want 0, 600", st.Nlink, st.Mode&0o7777)
	}
}

// TestRestored: a retained file that the undo puts back is the same file to
// whoever still has it open, and a directory is alive again.
func TestRestored(t *testing.T) {
	blobs := t.TempDir()
	m := mount(t, func(o *vfs.Options) { o.Hooks = adopter(t, blobs) })
	p := func(n string) string { return filepath.Join(m.mnt, n) }
	h := func(n string) string { return filepath.Join(m.host, n) }
	check(t, os.WriteFile(h("f"), []byte("content"), 0o644))
	check(t, os.Mkdir(h("d"), 0o755))
	f, err := os.OpenFile(p("f"), os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	d, err := unix.Open(p("d"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(d)
	check(t, os.Remove(p("f")))
	check(t, os.Remove(p("d")))
	var st unix.Stat_t
	if err := unix.Fstat(d, &st); err == nil && st.Nlink != 0 {
		t.Errorf("the removed directory has nlink %d", st.Nlink)
	}
	if err := unix.Mkdirat(d, "inside", 0o755); err == nil {
		t.Error("made something in a removed directory")
	}
	check(t, os.Rename(filepath.Join(blobs, "1"), h("f")))
	check(t, os.Rename(filepath.Join(blobs, "2"), h("d")))
	root := idOf(t, m.host)
	check(t, m.Invalidate(fsbridge.Changes{List: []fsbridge.Change{
		{Dir: root, Name: "f", ID: idOf(t, h("f"))}, {Dir: root, Name: "d", ID: idOf(t, h("d"))},
	}}))
	_, err = f.WriteAt([]byte("shared!"), 0)
	check(t, err)
	if got, err := os.ReadFile(p("f")); err != nil || string(got) != "shared!" {
		t.Errorf("by name: %q, %v", got, err)
	}
	check(t, unix.Stat(p("f"), &st))
	if st.Nlink != 1 {
		t.Errorf("nlink %d", st.Nlink)
	}
	check(t, os.WriteFile(p("d/inside"), nil, 0o644))
}

// TestMovedAway: a directory that a rollback moved into the undo log while an
// operation waited is not written to, although its descriptor was open.
func TestMovedAway(t *testing.T) {
	h := newHolder("new")
	r := &recorder{gate: h.gate}
	m := mount(t, func(o *vfs.Options) { o.Hooks = r })
	log := t.TempDir()
	check(t, os.Mkdir(filepath.Join(m.mnt, "d"), 0o755))
	result := make(chan error, 1)
	go func() { result <- os.Mkdir(filepath.Join(m.mnt, "d/new"), 0o755) }()
	<-h.arrived
	r.guard.Drain(func() bool {
		check(t, os.Rename(filepath.Join(m.host, "d"), filepath.Join(log, "d")))
		return true
	})
	h.release <- nil
	if err := <-result; err == nil {
		t.Error("mkdir succeeded")
	}
	if got := listed(t, filepath.Join(log, "d")); len(got) != 0 {
		t.Errorf("written into the log: %q", got)
	}
}

// TestHardLinks: all names lead to one file, and the count is right however
// names come and go.
func TestHardLinks(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		m := mount(t, func(o *vfs.Options) {
			if adopt {
				o.Hooks = adopter(t, t.TempDir())
			}
		})
		p := func(n string) string { return filepath.Join(m.mnt, n) }
		nlink := func(n string, want uint64) {
			t.Helper()
			var st unix.Stat_t
			check(t, unix.Stat(p(n), &st))
			if uint64(st.Nlink) != want {
				t.Errorf("adopted %v: %s has nlink %d, want %d", adopt, n, st.Nlink, want)
			}
		}
		check(t, os.WriteFile(p("a"), []byte("x"), 0o644))
		check(t, os.Link(p("a"), p("b")))
		check(t, os.Link(p("b"), p("c")))
		nlink("a", 3)
		check(t, os.Remove(p("a")))
		nlink("b", 2)
		check(t, os.Rename(p("b"), p("d")))
		nlink("c", 2)
		check(t, os.WriteFile(p("d"), []byte("by one name"), 0o644))
		if got, err := os.ReadFile(p("c")); err != nil || string(got) != "by one name" {
			t.Errorf("by the other: %q, %v", got, err)
		}
		check(t, os.Remove(p("d")))
		nlink("c", 1)
		if err := os.Link(m.mnt, p("dir")); vfs.Errno(err) != syscall.EPERM {
			t.Errorf("hard link of a directory: %v", err)
		}
	}
}

// TestTmpfile: a file without a name can be given one, unless O_EXCL forbids
// it.
func TestTmpfile(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.Hooks = new(recorder) })
	fd, err := unix.Open(m.mnt, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o640)
	check(t, err)
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("anonymous"))
	check(t, err)
	if got := listed(t, m.host); len(got) != 0 {
		t.Errorf("it has a name: %q", got)
	}
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	named := filepath.Join(m.mnt, "named")
	check(t, unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, named, unix.AT_SYMLINK_FOLLOW))
	got, err := os.ReadFile(filepath.Join(m.host, "named"))
	if err != nil || string(got) != "anonymous" {
		t.Errorf("on the host: %q, %v", got, err)
	}
	var st unix.Stat_t
	check(t, unix.Stat(named, &st))
	if st.Nlink != 1 || st.Mode&0o7777 != 0o640 {
		t.Errorf("nlink %d, mode %o", st.Nlink, st.Mode)
	}
	excl, err := unix.Open(m.mnt, unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o640)
	check(t, err)
	defer unix.Close(excl)
	self = fmt.Sprintf("/proc/self/fd/%d", excl)
	if err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, named+"2", unix.AT_SYMLINK_FOLLOW); err == nil {
		t.Error("a file made with O_EXCL was linked")
	}
}

// TestExchange swaps a file and a directory, and both are found after it.
func TestExchange(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.Hooks = new(recorder); o.MaxDirFDs = 1 })
	p := func(n string) string { return filepath.Join(m.mnt, n) }
	check(t, os.MkdirAll(p("x/d/sub"), 0o755))
	check(t, os.MkdirAll(p("y"), 0o755))
	check(t, os.WriteFile(p("y/f"), []byte("file"), 0o644))
	check(t, unix.Renameat2(unix.AT_FDCWD, p("x/d"), unix.AT_FDCWD, p("y/f"), unix.RENAME_EXCHANGE))
	check(t, os.WriteFile(p("y/f/sub/new"), []byte("below"), 0o644))
	for name, want := range map[string]string{"x/d": "file", "y/f/sub/new": "below"} {
		if got, err := os.ReadFile(filepath.Join(m.host, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	err := unix.Renameat2(unix.AT_FDCWD, p("x/d"), unix.AT_FDCWD, p("y/f"), unix.RENAME_NOREPLACE)
	if err != unix.EEXIST {
		t.Errorf("NOREPLACE: %v", err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, p("x/d"), unix.AT_FDCWD, p("z"), unix.RENAME_WHITEOUT); err == nil {
		t.Error("WHITEOUT was accepted")
	}
}
