package store

import (
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// maxOpenDirs bounds the descriptors that one cache keeps open.
const maxOpenDirs = 32

// DirCache keeps directories open, each known by its key: the one that is worth least is closed first, and the level rises to that ("greedy dual"). Of those that
// cost the same, it is the one that was not used for longest. Descriptors that
// somebody uses are pinned. A descriptor stays right when its directory moves: so this is no cache for a bridge, which must know that each is still where its names
// say (fsbridge/vfs). The zero value is empty. It is not safe for concurrent use.
type DirCache[K comparable] struct {
	dirs        []openDir[K]
	tick, level uint64
}

type openDir[K comparable] struct {
	key  K
	fd   int
	pins int
	used uint64
	// cost is about how many directories must be opened to have this one again, and worth the cache's level when it was last
	// used, and that.
	cost, worth uint64
}

func (c *DirCache[K]) use(d *openDir[K]) {
	c.tick++
	d.used, d.worth = c.tick, c.level+d.cost
}

// Get returns the pinned descriptor of k, which [DirCache.Put] gives back, or -1.
func (c *DirCache[K]) Get(k K) int {
	for i := range c.dirs {
		if d := &c.dirs[i]; d.key == k {
			c.use(d)
			d.pins++
			return d.fd
		}
	}
	return -1
}

// Add takes fd over and pins it.
func (c *DirCache[K]) Add(k K, fd int) { c.keep(k, fd, 1) }

// keep is Add for a directory that costs that much.
func (c *DirCache[K]) keep(k K, fd int, cost uint64) {
	e := openDir[K]{key: k, fd: fd, pins: 1, cost: cost}
	c.use(&e)
	if len(c.dirs) >= maxOpenDirs {
		if least := c.least(); least != nil {
			c.level = max(c.level, least.worth)
			_ = hostfs.Close(least.fd)
			*least = e
			return
		}
	}
	c.dirs = append(c.dirs, e)
}

// least is what is worth least of the directories that nobody uses, or nil.
func (c *DirCache[K]) least() (least *openDir[K]) {
	for i := range c.dirs {
		d := &c.dirs[i]
		if d.pins > 0 {
			continue
		}
		if least == nil || d.worth < least.worth || d.worth == least.worth && d.used < least.used {
			least = d
		}
	}
	return least
}

// OpenChain opens directories each of which is in the next one, the last of them first, and returns the descriptor of the
// first, pinned. Those at a half, three quarters, seven eighths... of the way are kept longest: so whoever goes up a chain of
// directories opens n log n for n directories, and not the square.
func (c *DirCache[K]) OpenChain(chain []K, open func(i int) (fd int, err error)) (fd int, err error) {
	half := len(chain) / 2
	for i := len(chain) - 1; i >= 0; i-- {
		if fd, err = open(i); err != nil {
			return -1, err
		}
		cost := uint64(1)
		if i == half && i > 0 {
			cost, half = uint64(half), half/2
		}
		c.keep(chain[i], fd, cost)
		if i > 0 {
			c.Put(chain[i])
		}
	}
	return fd, nil
}

// Put gives back what was pinned.
func (c *DirCache[K]) Put(k K) {
	for i := range c.dirs {
		if c.dirs[i].key == k {
			c.dirs[i].pins--
			return
		}
	}
}

// Drop closes the directories that match and that nobody uses.
func (c *DirCache[K]) Drop(match func(K) bool) {
	c.dirs = slices.DeleteFunc(c.dirs, func(d openDir[K]) bool {
		drop := d.pins == 0 && match(d.key)
		if drop {
			_ = hostfs.Close(d.fd)
		}
		return drop
	})
}

// Close closes all of them.
func (c *DirCache[K]) Close() {
	for i := range c.dirs {
		_ = hostfs.Close(c.dirs[i].fd)
	}
	c.dirs = nil
}
