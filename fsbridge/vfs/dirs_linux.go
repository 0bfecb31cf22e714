package vfs

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// dirFD is an open directory of the cache. It is pinned while a request uses
// it. The descriptor serves as a dirfd; where the host lets us read the
// directory also for listing, at a position that mu guards.
type dirFD struct {
	node *node
	fd   int

	// Guarded by the cache's mutex.
	pins int
	elem *list.Element // nil: no longer cached, closed at the last unpin

	// checked is the (epoch, generation) in which the directory was last seen
	// to be where its names say.
	checked atomic.Pointer[checkpoint]

	mu  sync.Mutex
	pos int64 // where the next getdents goes on; -1 unknown
}

type checkpoint struct{ epoch, generation uint64 }

// dirCache keeps directory descriptors, the least recently used are closed
// first. It opens by walking names and verifies what it finds.
type dirCache struct {
	tree *Tree
	max  int

	mu   sync.Mutex
	open map[*node]*dirFD
	lru  list.List // of *dirFD, most recent first

	// generation grows when somebody behind our back may have moved
	// directories.
	generation atomic.Uint64
}

// noEpoch marks a directory that is not checked in any epoch.
const noEpoch = ^uint64(0)

// acquire returns a pinned descriptor of the directory n: ESTALE if it is not
// where its names say, ENOENT if it was removed, ENOTDIR if it is none.
func (c *dirCache) acquire(n *node) (*dirFD, error) {
	if !n.isDir() {
		return nil, syscall.ENOTDIR
	}
	if !n.linked() {
		return nil, syscall.ENOENT
	}
	c.mu.Lock()
	d := c.open[n]
	if d != nil {
		d.pins++
		c.lru.MoveToFront(d.elem)
	}
	c.mu.Unlock()
	if d != nil {
		if err := c.check(d, noEpoch); err != nil {
			c.release(d)
			return nil, err
		}
		return d, nil
	}
	generation := c.generation.Load()
	fd, err := c.walk(n)
	if err != nil {
		return nil, err
	}
	fresh := &dirFD{node: n, fd: fd, pins: 1, pos: -1}
	fresh.checked.Store(&checkpoint{epoch: noEpoch, generation: generation})
	return c.insert(fresh), nil
}

// insert adds fresh unless another goroutine was faster, and makes room.
func (c *dirCache) insert(fresh *dirFD) *dirFD {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.open[fresh.node]; d != nil {
		_ = hostfs.Close(fresh.fd)
		d.pins++
		return d
	}
	fresh.elem = c.lru.PushFront(fresh)
	c.open[fresh.node] = fresh
	c.shrink(c.max)
	return fresh
}

// shrink drops unpinned descriptors until at most keep are cached.
func (c *dirCache) shrink(keep int) {
	for e := c.lru.Back(); e != nil && c.lru.Len() > keep; {
		d := e.Value.(*dirFD)
		e = e.Prev()
		if d.pins == 0 {
			c.drop(d)
		}
	}
}

// drop takes d out of the cache; the caller holds mu.
func (c *dirCache) drop(d *dirFD) {
	if d.elem == nil {
		return
	}
	c.lru.Remove(d.elem)
	d.elem = nil
	delete(c.open, d.node)
	if d.pins == 0 {
		_ = hostfs.Close(d.fd)
	}
}

// release unpins d.
func (c *dirCache) release(d *dirFD) {
	if d == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d.pins--
	if d.pins > 0 {
		return
	}
	if d.elem == nil {
		_ = hostfs.Close(d.fd)
	} else if c.lru.Len() > c.max {
		c.drop(d)
	}
}

// forget drops the descriptor of n, if one is open.
func (c *dirCache) forget(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.open[n]; d != nil {
		c.drop(d)
	}
}

// count returns how many descriptors are cached.
func (c *dirCache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// close drops everything, now and later: a watcher may still ask.
func (c *dirCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = -1
	for _, d := range c.open {
		c.drop(d)
	}
}

// check makes sure that d is where its names say, once per generation and
// (unless noEpoch) per epoch, and drops it otherwise.
func (c *dirCache) check(d *dirFD, epoch uint64) error {
	generation := c.generation.Load()
	seen := d.checked.Load()
	if seen.generation == generation && (epoch == noEpoch || seen.epoch == epoch) {
		return nil
	}
	fd, err := c.walk(d.node)
	if err != nil {
		c.mu.Lock()
		c.drop(d)
		c.mu.Unlock()
		return err
	}
	_ = hostfs.Close(fd)
	d.checked.Store(&checkpoint{epoch: epoch, generation: generation})
	return nil
}

// walk opens n by its names, from the root, and verifies that it is n.
func (c *dirCache) walk(n *node) (int, error) {
	fd, err := c.walkOnce(n)
	if Errno(err) == syscall.EMFILE {
		c.mu.Lock()
		c.shrink(0)
		c.mu.Unlock()
		fd, err = c.walkOnce(n)
	}
	return fd, stale(err)
}

func (c *dirCache) walkOnce(n *node) (int, error) {
	t := c.tree
	// No rename of ours may come between reading the names and using them.
	t.renames.RLock()
	defer t.renames.RUnlock()
	path, ok := n.path()
	if !ok {
		return -1, syscall.ESTALE
	}
	fd, err := t.opts.Root.OpenPath(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, syscall.EACCES) {
		fd, err = t.opts.Root.OpenPath(path, unix.O_PATH|unix.O_DIRECTORY)
	}
	if err != nil {
		return -1, err
	}
	fd, st, err := describe(fd)
	if err == nil && st.ID != n.obj.ID {
		_ = hostfs.Close(fd)
		return -1, syscall.ESTALE
	}
	return fd, err
}

// openDir opens the directory n itself with flags.
func (t *Tree) openDir(n *node, flags int) (int, hostfs.Stat, error) {
	d, err := t.dirs.acquire(n)
	if err != nil {
		return -1, hostfs.Stat{}, err
	}
	defer t.dirs.release(d)
	fd, err := hostfs.OpenSelf(d.fd, flags)
	if err != nil {
		return -1, hostfs.Stat{}, err
	}
	return describe(fd)
}

// statDir describes a directory: by its open descriptor, even when it was
// removed, else by its name.
func (t *Tree) statDir(n *node) (hostfs.Stat, error) {
	t.dirs.mu.Lock()
	d := t.dirs.open[n]
	if d != nil {
		d.pins++
	}
	t.dirs.mu.Unlock()
	if d == nil {
		if b := n.names.Load(); b != nil {
			return t.statBound(n, b)
		}
		var err error
		if d, err = t.dirs.acquire(n); err != nil {
			return hostfs.Stat{}, err
		}
	}
	defer t.dirs.release(d)
	return hostfs.StatFD(d.fd)
}

func (t *Tree) statBound(n *node, b *binding) (hostfs.Stat, error) {
	d, err := t.dirs.acquire(b.parent)
	if err != nil {
		return hostfs.Stat{}, err
	}
	defer t.dirs.release(d)
	st, err := hostfs.StatAt(d.fd, b.name)
	if err == nil && st.ID != n.obj.ID {
		err = syscall.ESTALE
	}
	return st, stale(err)
}
