package confine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwnSwept: what a killed supervisor has left goes at the next start, and nothing else.
func TestOwnSwept(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	make := func() *own {
		t.Helper()
		o, err := makeOwn()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	exists := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	living, killed := make(), make()
	must(os.WriteFile(filepath.Join(killed.path, "file"), nil, 0o400))
	must(os.MkdirAll(filepath.Join(killed.path, "a", "b"), 0o755))
	must(os.Chmod(filepath.Join(killed.path, "a"), 0))
	must(killed.lock.Close()) // as the kernel does
	beside := filepath.Join(tmp, "beside")
	must(os.Mkdir(beside, 0o755))
	must(os.Symlink(beside, filepath.Join(tmp, ownPrefix+"link")))
	next := make()
	switch {
	case exists(killed.path):
		t.Error("what was left is still there")
	case !exists(filepath.Join(living.path, noticeDir)), !exists(next.path):
		t.Error("what is in use was removed")
	case !exists(beside):
		t.Error("a symlink was followed")
	}
	must(living.remove())
	must(next.remove())
	if exists(living.path) || exists(next.path) {
		t.Error("not removed at the end")
	}
}
