package apply

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestChain: who goes up a chain of directories, as a redo of its removal does, does not open each one's whole path again, although few are kept.
func TestChain(t *testing.T) {
	const deep, most = 4_000, 16 // most: about the logarithm of deep, for each
	dir := t.TempDir()
	var c dirCache
	defer c.closeAll()
	opened := 0
	for n := deep; n > 0; n-- {
		key := dirKey{kind: kindNode, n: uint64(n)}
		if c.get(key) >= 0 {
			c.put(key)
			continue
		}
		var chain []dirKey
		for up := n; up > 0; up-- {
			k := dirKey{kind: kindNode, n: uint64(up)}
			if c.get(k) >= 0 {
				c.put(k)
				break
			}
			chain = append(chain, k)
		}
		fd, err := c.openChain(chain, func(int) (int, error) {
			opened++
			return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		if err != nil || fd < 0 {
			t.Fatal(fd, err)
		}
		c.put(key)
	}
	if opened > most*deep {
		t.Errorf("%d directories were opened to go through %d", opened, deep)
	}
	if len(c.dirs) > maxOpenDirs {
		t.Errorf("%d descriptors are kept", len(c.dirs))
	}
}
