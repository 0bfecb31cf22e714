package vfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// granter is a bridge that only grants: the test is its client.
type granter struct{ *vfs.Tree }

func (g granter) Fence(context.Context) error { return nil }

func (g granter) Invalidate(c fsbridge.Changes) error { g.Forsake(c); return nil }

func (g granter) Close() error { g.Refuse(); g.Tree.Close(); return nil }

// folder is a working folder with a log, whose client gets granted descriptors.
type folder struct {
	t    *testing.T
	dir  string
	tree *vfs.Tree
	*direct.Session
	warnings []undolog.Warning // of the log
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	return newFolderIn(t, t.TempDir(), undolog.Limits{})
}

// newFolderIn is newFolder in a directory that is there.
func newFolderIn(t *testing.T, base string, limits undolog.Limits) *folder {
	t.Helper()
	f := &folder{t: t, dir: filepath.Join(base, "work")}
	check(t, os.Mkdir(f.dir, 0o755))
	s, err := direct.Open(t.Context(), direct.Options{Dir: f.dir, Undo: filepath.Join(base, "undo"), Limits: limits,
		Warn: func(w undolog.Warning) { f.warnings = append(f.warnings, w) },
		Serve: func(o vfs.Options) (fsbridge.Bridge, error) {
			var err error
			f.tree, err = vfs.NewTree(o)
			return granter{f.tree}, err
		}})
	check(t, err)
	f.Session = s
	t.Cleanup(func() { check(t, s.Close()) })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name, content string) {
	f.t.Helper()
	check(f.t, os.WriteFile(f.path(name), []byte(content), 0o644))
}

func (f *folder) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(f.path(name))
	check(f.t, err)
	return string(b)
}

// grant gets a descriptor of a name in the root.
func (f *folder) grant(name string, flags int, mode uint32) (*os.File, error) {
	g, err := f.tree.Grant(vfs.Request{}, vfs.RootID, vfs.OpenFile{Name: name, Flags: flags, Mode: mode})
	if err != nil {
		if g.FD != -1 {
			f.t.Errorf("descriptor %d with an error", g.FD)
		}
		return nil, err
	}
	f.tree.Forget(g.Node, 1)
	file := os.NewFile(uintptr(g.FD), name)
	f.t.Cleanup(func() { _ = file.Close() })
	return file, nil
}

// must is grant that works.
func (f *folder) must(name string, flags int) *os.File {
	f.t.Helper()
	file, err := f.grant(name, flags, 0o644)
	check(f.t, err)
	return file
}

// step runs do in a step and returns its entry.
func (f *folder) step(do func()) *undolog.Entry {
	f.t.Helper()
	e, err := f.Step(f.t.Context(), "step", func() error { do(); return nil })
	check(f.t, err)
	return e
}

func (f *folder) undo() {
	f.t.Helper()
	check(f.t, f.Undo(f.t.Context(), 1))
}

func (f *folder) snapshot() *treesnap.Snapshot { return treesnap.MustTake(f.t, f.dir) }

func put(t *testing.T, file *os.File, off int64, s string) {
	t.Helper()
	_, err := file.WriteAt([]byte(s), off)
	check(t, err)
}

// TestMBGrantUndone: what is written to granted descriptors is undone.
func TestMBGrantUndone(t *testing.T) {
	f := newFolder(t)
	f.write("old", "old content")
	f.write("emptied", "emptied content")
	f.write("empty", "")
	before := f.snapshot()
	e := f.step(func() {
		put(t, f.must("old", os.O_RDWR), 4, "CON")
		put(t, f.must("old", os.O_WRONLY), 20, "more")
		put(t, f.must("emptied", os.O_WRONLY|os.O_TRUNC), 0, "x")
		check(t, f.must("empty", os.O_RDONLY|os.O_CREATE|os.O_TRUNC).Close())
		put(t, f.must("new", os.O_WRONLY|os.O_CREATE), 0, "new")
		put(t, f.must("new", os.O_WRONLY|os.O_CREATE), 3, "er")
		_, err := f.must("old", os.O_WRONLY|os.O_APPEND).WriteString("appended")
		check(t, err)
	})
	if got, want := f.read("old"), "old CONtent\x00\x00\x00\x00\x00\x00\x00\x00\x00moreappended"; got != want {
		t.Errorf("old: %q", got)
	}
	if f.read("emptied") != "x" || f.read("new") != "newer" {
		t.Error("not written")
	}
	if e == nil || e.AffectedCount < 3 {
		t.Fatalf("entry %+v", e)
	}
	f.undo()
	treesnap.Same(t, "after undo", before, f.snapshot())
}

// TestMBGrantRefused: what is not granted, and with which error; nothing is captured then.
func TestMBGrantRefused(t *testing.T) {
	f := newFolder(t)
	f.write("f", "x")
	check(t, os.Mkdir(f.path("d"), 0o755))
	check(t, os.Symlink("f", f.path("l")))
	check(t, unix.Mkfifo(f.path("p"), 0o644))
	e := f.step(func() {
		for _, c := range []struct {
			name  string
			flags int
			mode  uint32
			want  error
		}{
			{"none", os.O_WRONLY, 0, syscall.ENOENT},
			{"d", os.O_WRONLY, 0, syscall.EISDIR},
			{"d", os.O_WRONLY | os.O_CREATE, 0o644, syscall.EISDIR},
			{"l", os.O_WRONLY, 0, syscall.ELOOP},
			{"l", os.O_WRONLY | os.O_CREATE | os.O_EXCL, 0o644, syscall.EEXIST},
			{"f", os.O_WRONLY | os.O_CREATE | os.O_EXCL, 0o644, syscall.EEXIST},
			{"f", os.O_WRONLY | syscall.O_DIRECTORY, 0, syscall.ENOTDIR},
			{"p", os.O_WRONLY, 0, vfs.ErrNotRegular},
			{"p", os.O_RDWR, 0, vfs.ErrNotRegular},
			{"..", os.O_WRONLY, 0, syscall.EINVAL},
			{"a/b", os.O_WRONLY | os.O_CREATE, 0o644, syscall.EINVAL},
		} {
			if _, err := f.grant(c.name, c.flags, c.mode); !errors.Is(err, c.want) {
				t.Errorf("%s, flags %#x: %v, want %v", c.name, c.flags, err, c.want)
			}
		}
	})
	if e != nil {
		t.Errorf("history entry %+v", e)
	}
}

// TestMBGrantFlags: the descriptor has the flags that were asked for.
func TestMBGrantFlags(t *testing.T) {
	f := newFolder(t)
	f.write("f", "x")
	const shown = syscall.O_ACCMODE | syscall.O_APPEND | syscall.O_NONBLOCK | syscall.O_SYNC
	f.step(func() {
		for _, flags := range []int{os.O_WRONLY, os.O_RDWR | syscall.O_NONBLOCK, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_SYNC} {
			for _, extra := range []int{0, os.O_CREATE, os.O_TRUNC} {
				file := f.must("f", flags|extra)
				got, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
				check(t, err)
				if got&shown != flags {
					t.Errorf("flags %#x, want %#x", got&shown, flags)
				}
			}
		}
	})
}

// TestMBGrantTmpfile: a file without a name is written, and linked by a descriptor.
func TestMBGrantTmpfile(t *testing.T) {
	f := newFolder(t)
	before := f.snapshot()
	f.step(func() {
		g, err := f.tree.GrantTmpfile(vfs.Request{}, vfs.RootID, vfs.OpenFile{Flags: os.O_RDWR | unix.O_TMPFILE, Mode: 0o640})
		check(t, err)
		file := os.NewFile(uintptr(g.FD), "")
		defer file.Close()
		put(t, file, 0, "content")
		dup, err := unix.Dup(g.FD)
		check(t, err)
		node, handle, err := f.tree.Attach(dup)
		check(t, err)
		if node != g.Node {
			t.Errorf("node %d, want %d", node, g.Node)
		}
		_, err = f.tree.Link(vfs.Request{}, node, vfs.RootID, "linked")
		check(t, err)
		f.tree.Release(handle)
	})
	if f.read("linked") != "content" {
		t.Error("content")
	}
	f.undo()
	treesnap.Same(t, "after undo", before, f.snapshot())
}
