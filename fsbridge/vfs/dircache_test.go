package vfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestRead: a directory is listed from its start as often as somebody asks, wherever its
// descriptor stands.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache := newDirCache[int](10, newChain(t, dir))
	defer cache.Close()
	d, err := cache.Acquire(0)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Release(d)
	buf := make([]byte, 4096)
	list := func() (off int64) {
		t.Helper()
		seen := 0
		for {
			entries, err := d.Read(buf, off)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				off = e.Off
				if e.Name == "file" {
					seen++
				}
			}
		}
		if seen != 1 {
			t.Errorf("the file is listed %d times", seen)
		}
		return off
	}
	end := list()
	list()
	// The file system says that there is nothing at the start.
	d.mu.Lock()
	if err := hostfs.SeekDir(d.FD, end); err != nil {
		t.Fatal(err)
	}
	d.pos = 0
	d.mu.Unlock()
	list()
	list()
}

// chain is a tree in which each directory has one in it. All are the same one on the disk.
type chain struct {
	dir          int // its descriptor
	asked, names int // steps up, and names that were walked
}

func newChain(t *testing.T, path string) *chain {
	t.Helper()
	root, err := hostfs.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &chain{dir: root.FD()}
}

func (c *chain) Hold() func() { return func() {} }

func (c *chain) Up(n int) (parent int, name string, ok bool) {
	c.asked++
	return max(n-1, 0), "d", true
}

func (c *chain) Find(*cachedDir[int]) bool { return false }

func (c *chain) Open(from *cachedDir[int], path string, n int) (int, error) {
	begin, walked := 0, strings.Count(path, "d")
	if from != nil {
		begin = from.Node
	}
	if c.names += walked; begin+walked != n {
		return -1, posix.ENOENT
	}
	return posix.Openat(c.dir, ".", posix.O_RDONLY|posix.O_DIRECTORY, 0)
}

// TestChain: who goes down a chain of directories and up again, as a removal of it does, does not walk each one's whole path,
// although few descriptors are kept: neither when it opens them nor when it looks whether each is still there.
func TestChain(t *testing.T) {
	const deep, kept, most = 4_000, 40, 16 // most: about the logarithm of deep, for each
	c := newChain(t, t.TempDir())
	cache := newDirCache[int](kept, c)
	defer cache.Close()
	visit := func(n int, epoch uint64) {
		t.Helper()
		d, err := cache.Acquire(n)
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Release(d)
		if err := cache.Check(d, epoch); err != nil {
			t.Fatal(err)
		}
	}
	for epoch, renewed := range []func(){func() {}, func() {}, cache.Moved} {
		for n := range deep {
			visit(n, uint64(epoch))
		}
		renewed()
		c.asked, c.names = 0, 0
		for n := deep - 1; n >= 0; n-- {
			visit(n, uint64(epoch+1))
		}
		if c.names > most*deep || c.asked > most*deep {
			t.Errorf("%d names walked and %d steps up for %d directories", c.names, c.asked, deep)
		}
		if n := cache.Len(); n > kept {
			t.Errorf("%d descriptors are kept", n)
		}
	}
}
