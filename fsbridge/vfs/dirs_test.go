package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// treeOf is the tree of a directory.
func treeOf(t *testing.T, host string) *Tree {
	t.Helper()
	root, err := hostfs.OpenRoot(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	tree, err := NewTree(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree
}

// TestRemovedDirectory: a directory that was removed, or replaced, is described until the kernel forgets it: a process may have it open, and the
// kernel asks when it may not keep what it was told any longer.
func TestRemovedDirectory(t *testing.T) {
	host := t.TempDir()
	tree := treeOf(t, host)
	for name, remove := range map[string]func() error{
		"rmdir":  func() error { return tree.Rmdir(Request{}, RootID, "d") },
		"rename": func() error { return tree.Rename(Request{}, RootID, "e", RootID, "d", 0) },
	} {
		for _, dir := range []string{"d", "e"} {
			if err := os.MkdirAll(filepath.Join(host, dir), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		e, err := tree.Lookup(RootID, "d")
		if err != nil {
			t.Fatal(err)
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		tree.dirs.Forget(tree.node(e.Node)) // no descriptor of it is kept for ever
		a, err := tree.GetAttr(e.Node, 0)
		if err != nil || a.Ino != e.Attr.Ino || a.Mode != e.Attr.Mode || a.Nlink != 0 {
			t.Errorf("%s: %+v, %v; it was %+v", name, a, err, e.Attr)
		}
		tree.Forget(e.Node, 1)
		if _, err := tree.GetAttr(e.Node, 0); err == nil {
			t.Errorf("%s: it is described although nobody knows it", name)
		}
	}
}
