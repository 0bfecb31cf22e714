package store

import (
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestDirChain: who goes up a chain of directories, as a redo of its removal does, does not open each one's whole path again, although few are kept.
func TestDirChain(t *testing.T) {
	const deep, most = 4_000, 16 // most: about the logarithm of deep, for each
	root, err := hostfs.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var c DirCache[int]
	defer c.Close()
	opened := 0
	for n := deep; n > 0; n-- {
		if c.Get(n) >= 0 {
			c.Put(n)
			continue
		}
		var chain []int
		for up := n; up > 0; up-- {
			if c.Get(up) >= 0 {
				c.Put(up)
				break
			}
			chain = append(chain, up)
		}
		fd, err := c.OpenChain(chain, func(int) (int, error) {
			opened++
			return posix.Openat(root.FD(), ".", posix.O_PATH|posix.O_DIRECTORY, 0)
		})
		if err != nil || fd < 0 {
			t.Fatal(fd, err)
		}
		c.Put(n)
	}
	if opened > most*deep {
		t.Errorf("%d directories were opened to go through %d", opened, deep)
	}
	if len(c.dirs) > maxOpenDirs {
		t.Errorf("%d descriptors are kept", len(c.dirs))
	}
}
