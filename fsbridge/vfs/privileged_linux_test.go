package vfs_test

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func (f *folder) mode(name string) uint32 {
	f.t.Helper()
	var st unix.Stat_t
	check(f.t, unix.Lstat(f.path(name), &st))
	return st.Mode & 0o7777
}

// setMode is chmod by the client.
func (f *folder) setMode(name string, mode uint32) {
	f.t.Helper()
	e, err := f.tree.Lookup(vfs.RootID, name)
	check(f.t, err)
	defer f.tree.Forget(e.Node, 1)
	_, err = f.tree.SetAttr(vfs.Request{}, e.Node, &vfs.SetAttr{Set: vfs.SetMode, Mode: mode})
	check(f.t, err)
}

// TestModeBitsLeftOut: a file gets neither setuid nor setgid, a directory both, and the step says of which files they were left out, by the names that
// these have in the end.
func TestModeBitsLeftOut(t *testing.T) {
	f := newFolder(t)
	f.step(func() {
		file, err := f.grant("made", os.O_RDWR|os.O_CREATE, 0o6755)
		check(t, err)
		put(t, file, 0, "text")
		f.setMode("made", 0o4711)
		check(t, f.tree.Rename(vfs.Request{}, vfs.RootID, "made", vfs.RootID, "name", 0))
		e, err := f.tree.Mknod(vfs.Request{}, vfs.RootID, "node", syscall.S_IFREG|0o2755)
		check(t, err)
		f.tree.Forget(e.Node, 1)
		f.setMode("node", 0o2711) // of which the client has let go meanwhile
		f.setMode("node", 0o2755)
		e, err = f.tree.Mkdir(vfs.Request{}, vfs.RootID, "dir", 0o755)
		check(t, err)
		f.tree.Forget(e.Node, 1)
		f.setMode("dir", 0o6775)
	})
	for name, want := range map[string]uint32{"name": 0o711, "node": 0o755, "dir": 0o6775} {
		if got := f.mode(name); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	w := f.warnings
	if len(w) != 1 || w[0].Code != undolog.WarnLeftOut || !slices.Equal(w[0].Paths, []string{"name", "node"}) {
		t.Errorf("warnings %+v", w)
	}
	f.step(func() { f.setMode("name", 0o700) })
	if len(f.warnings) != 1 {
		t.Errorf("warnings of a step that left nothing out: %+v", f.warnings[1:])
	}
}

// TestModeBitsComeBack: a program that had the bits keeps them where its mode is set to what it is, and loses them where it is opened to write, or
// its mode changes. Undo and redo put back exactly what there was.
func TestModeBitsComeBack(t *testing.T) {
	f := newFolder(t)
	modes := map[string]uint32{"kept": 0o6755, "changed": 0o4700, "opened": 0o6711, "read": 0o4755}
	for name, mode := range modes {
		f.write(name, "text")
		check(t, unix.Chmod(f.path(name), mode))
	}
	before := f.snapshot()
	f.step(func() {
		f.setMode("kept", 0o6755)
		f.setMode("changed", 0o4755)
		check(t, f.must("opened", os.O_RDWR).Close())
		check(t, f.must("read", os.O_RDONLY).Close())
	})
	for name, want := range map[string]uint32{"kept": 0o6755, "changed": 0o755, "opened": 0o711, "read": 0o4755} {
		if got := f.mode(name); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	after := f.snapshot()
	f.undo()
	treesnap.Same(t, "after undo", before, f.snapshot())
	check(t, f.Redo(t.Context(), 1))
	treesnap.Same(t, "after redo", after, f.snapshot())
}
