package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestListedLater: a directory that could be entered but not listed when it was first used can be listed as soon as its mode
// allows it, whoever has it open.
func TestListedLater(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	host := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(host, "d")
	check(os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	check(os.Chmod(dir, 0o300))
	tree := treeOf(t, host)
	e, err := tree.Lookup(RootID, "d")
	check(err)
	_, err = tree.Lookup(e.Node, "sub")
	check(err)
	list := func() (names int, err error) {
		err = tree.ReadDir(e.Node, 0, 4096, func(DirEntry) bool { names++; return true })
		return names, err
	}
	if _, err := list(); err == nil {
		t.Fatal("it was listed")
	}
	check(os.Chmod(dir, 0o755))
	if n, err := list(); err != nil || n != 3 {
		t.Errorf("%d names, %v", n, err)
	}
}
