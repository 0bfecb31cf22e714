//go:build linux

package fuseproto

import (
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// descriptors counts this process's descriptors of a file that was removed.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, path) {
			n++
		}
	}
	return n
}

// TestFreedAfterReply: what a removed file had is freed when the reply is out, and at
// once where nobody says when that is.
func TestFreedAfterReply(t *testing.T) {
	dir := t.TempDir()
	root, err := hostfs.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	for _, answers := range []bool{false, true} {
		tree, err := vfs.NewTree(vfs.Options{Root: root})
		check(t, err)
		fs := NewFileSystem(tree)
		var h *Handler
		if answers {
			h = NewHandler(tree, slog.New(slog.DiscardHandler))
		}
		for _, end := range []func(){func() { h.Answered() }, tree.Close} {
			path := filepath.Join(dir, "f")
			check(t, os.WriteFile(path, []byte(strings.Repeat("content", 1000)), iofs.ModePerm))
			header := fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
			check(t, statusError(fs.Unlink(nil, &header, "f")))
			if _, err := os.Lstat(path); err == nil {
				t.Error("it is still there")
			}
			want := 0
			if answers {
				want = 1
			}
			if n := descriptors(t, path); n != want {
				t.Errorf("%d descriptors, want %d", n, want)
			}
			if answers {
				end()
			}
			if n := descriptors(t, path); n != 0 {
				t.Errorf("%d descriptors are left", n)
			}
		}
		if !answers {
			tree.Close()
		}
	}
}
