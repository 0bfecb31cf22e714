package vfs

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// dirCacheTree says where directories are, and opens them.
type dirCacheTree[N comparable] interface {
	// Hold keeps what Up says true, but for what is done behind our back, until release is called.
	Hold() (release func())
	// Up returns the directory that n is in, and its name there. The root is in itself. ok is false where n has no name any more.
	Up(n N) (parent N, name string, ok bool)
	// Open opens the directory n by its path from an open one, or from the root if that is nil, and verifies that it is n.
	// The path is "." for the root itself.
	Open(from *cachedDir[N], path string, n N) (fd int, err error)
	// Find looks where an open directory is now, and has Up say so from then on, of it and of those above it. It tells whether it is in the tree.
	Find(d *cachedDir[N]) bool
}

// maxDirDepth bounds walks along parents: two renames from outside could make
// what we believe a loop.
const maxDirDepth = 1 << 16

// near is how many names are walked without keeping a directory on the way.
const near = 8

// step is a directory on the way to another, and its name in the one above.
type step[N comparable] struct {
	node N
	name string
}

// walk opens the directory n by its names, from the nearest directory above that is open and was seen at its place
// since at, else from the root.
//
// It keeps the directories at a half, three quarters, seven eighths... of the way. So whoever goes through a chain of
// directories from its end, as a removal does, walks n log n names for n directories, and not the square, however few
// descriptors are kept.
func (c *openDirs[N]) walk(n N, at *checkpoint) (int, error) {
	// No rename of ours may come between reading the names and using them.
	defer c.tree.Hold()()
	way, from, ok := c.wayTo(n, at)
	if !ok {
		return -1, posix.ESTALE
	}
	for len(way) > near {
		half := len(way) / 2
		fd, err := c.tree.Open(from, joined(way[half:]), way[half].node)
		if err != nil {
			break // whether n itself is there is asked below
		}
		c.Release(from)
		from, way = c.insert(way[half].node, fd, len(way)-half, at), way[:half]
	}
	defer c.Release(from)
	return c.tree.Open(from, joined(way), n)
}

// find looks for the nearest directory that is open, from n upwards, and where it is now: somebody behind our back may have moved it.
// Whoever has it open, or works in it, goes on there as he would without us.
func (c *openDirs[N]) find(n N) bool {
	for range maxDirDepth {
		if d := c.Cached(n); d != nil {
			found := c.tree.Find(d)
			c.Release(d)
			return found
		}
		parent, _, ok := c.tree.Up(n)
		if !ok || parent == n {
			return false
		}
		n = parent
	}
	return false
}

// wayTo returns the steps to n, the last one first, and the pinned directory that they begin in: nil for the root.
func (c *openDirs[N]) wayTo(n N, at *checkpoint) (way []step[N], from *cachedDir[N], ok bool) {
	for from == nil {
		parent, name, ok := c.tree.Up(n)
		if !ok || len(way) > maxDirDepth {
			return nil, nil, false
		}
		if parent == n {
			break
		}
		way = append(way, step[N]{n, name})
		n, from = parent, c.trusted(parent, at)
	}
	return way, from, true
}

// trusted returns the pinned descriptor of n if one is open that was seen at its place since at, else nil.
func (c *openDirs[N]) trusted(n N, at *checkpoint) *cachedDir[N] {
	d := c.Cached(n)
	if d != nil && !d.seen(at) {
		c.Release(d)
		return nil
	}
	return d
}

func joined[N comparable](way []step[N]) string {
	if len(way) == 0 {
		return "."
	}
	size := len(way)
	for i := range way {
		size += len(way[i].name)
	}
	var b strings.Builder
	b.Grow(size)
	for i := len(way) - 1; i >= 0; i-- {
		b.WriteString(way[i].name)
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String()
}
