package vfs

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// cachedDir is an open directory of the cache. It is pinned while a request uses
// it. The descriptor serves as a dirfd; where the host lets us read the
// directory also for listing, at a position that mu guards.
type cachedDir[N comparable] struct {
	Node N
	FD   int

	// Guarded by the cache's mutex.
	pins int
	elem *list.Element // nil: no longer cached, closed at the last unpin
	rank

	// checked is the (epoch, generation) in which the directory was last seen
	// to be where its names say.
	checked atomic.Pointer[checkpoint]

	mu  sync.Mutex
	pos int64 // where the next getdents goes on; -1 unknown
}

type checkpoint struct{ epoch, generation uint64 }

// openDirs keeps directory descriptors. The least recently used are closed first, but those that are far from any other
// above them are kept longer. Methods are safe for concurrent use.
type openDirs[N comparable] struct {
	tree dirCacheTree[N]

	mu   sync.Mutex
	max  int
	open map[N]*cachedDir[N]
	kept ranks[N] // those in open

	// generation grows when somebody behind our back may have moved
	// directories.
	generation atomic.Uint64
}

// noEpoch marks a directory that is not checked in any epoch.
const noEpoch = ^uint64(0)

// newDirCache makes a cache of at most max descriptors of directories of tree.
func newDirCache[N comparable](max int, tree dirCacheTree[N]) *openDirs[N] {
	return &openDirs[N]{tree: tree, max: max, open: make(map[N]*cachedDir[N])}
}

// Moved says that somebody behind our back may have moved directories: each is
// looked up again before it is used again.
func (c *openDirs[N]) Moved() { c.generation.Add(1) }

// Cached returns a pinned descriptor of n if one is open, else nil. Nobody checks that
// n is still where its names say.
func (c *openDirs[N]) Cached(n N) *cachedDir[N] {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.open[n]
	if d != nil {
		d.pins++
		c.kept.used(d)
	}
	return d
}

// Acquire returns a pinned descriptor of n, which [openDirs.Release] gives back, or what
// walk says.
func (c *openDirs[N]) Acquire(n N) (*cachedDir[N], error) {
	if d := c.Cached(n); d != nil {
		if err := c.Check(d, noEpoch); err != nil {
			c.Release(d)
			return nil, err
		}
		return d, nil
	}
	at := &checkpoint{epoch: noEpoch, generation: c.generation.Load()}
	fd, err := c.reopen(n, at)
	if err != nil {
		return nil, err
	}
	return c.insert(n, fd, near, at), nil
}

// insert adds the descriptor fd of n, which was seen at its place at that point, so many names below another, unless there is
// one, and makes room. What it returns is pinned.
func (c *openDirs[N]) insert(n N, fd, names int, at *checkpoint) *cachedDir[N] {
	fresh := &cachedDir[N]{Node: n, FD: fd, pins: 1, pos: -1}
	fresh.checked.Store(at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.open[n]; d != nil {
		_ = hostfs.Close(fd)
		d.checked.Store(at)
		d.pins++
		return d
	}
	c.kept.add(fresh, names)
	c.open[n] = fresh
	c.shrink(c.max)
	return fresh
}

// shrink drops unpinned descriptors until at most keep are cached.
func (c *openDirs[N]) shrink(keep int) {
	for len(c.open) > keep {
		d := c.kept.cheapest()
		if d == nil {
			return
		}
		c.drop(d)
	}
}

// drop takes d out of the cache; the caller holds mu.
func (c *openDirs[N]) drop(d *cachedDir[N]) {
	if d.elem == nil {
		return
	}
	c.kept.remove(d)
	delete(c.open, d.Node)
	if d.pins == 0 {
		_ = hostfs.Close(d.FD)
	}
}

// Release unpins d.
func (c *openDirs[N]) Release(d *cachedDir[N]) {
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
		_ = hostfs.Close(d.FD)
	} else if len(c.open) > c.max {
		c.drop(d)
	}
}

// Forget drops the descriptor of n, if one is open.
func (c *openDirs[N]) Forget(n N) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.open[n]; d != nil {
		c.drop(d)
	}
}

// Len returns how many descriptors are cached.
func (c *openDirs[N]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Close drops everything, now and later: a watcher may still ask.
func (c *openDirs[N]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = -1
	for _, d := range c.open {
		c.drop(d)
	}
}

// Check makes sure that d is where its names say, once per generation and
// (unless noEpoch) per epoch, and drops it otherwise.
func (c *openDirs[N]) Check(d *cachedDir[N], epoch uint64) error {
	at := &checkpoint{epoch: epoch, generation: c.generation.Load()}
	if d.seen(at) {
		return nil
	}
	fd, err := c.reopen(d.Node, at)
	if err != nil {
		c.mu.Lock()
		c.drop(d)
		c.mu.Unlock()
		return err
	}
	_ = hostfs.Close(fd)
	d.checked.Store(at)
	return nil
}

// seen tells whether d was seen at its place since at.
func (d *cachedDir[N]) seen(at *checkpoint) bool {
	seen := d.checked.Load()
	return seen.generation == at.generation && (at.epoch == noEpoch || seen.epoch == at.epoch)
}

// reopen walks, makes room if there are no more descriptors, and looks for a directory that is not where its names say.
func (c *openDirs[N]) reopen(n N, at *checkpoint) (int, error) {
	fd, err := c.walk(n, at)
	if errors.Is(err, posix.ESTALE) && c.find(n) {
		fd, err = c.walk(n, at)
	}
	if errors.Is(err, posix.EMFILE) {
		c.mu.Lock()
		c.shrink(0)
		c.mu.Unlock()
		fd, err = c.walk(n, at)
	}
	return fd, err
}

// Read returns one buffer full of entries from the position off on. Where we may enter
// a directory but not list it, that is EACCES.
func (d *cachedDir[N]) Read(buf []byte, off int64) (entries []hostfs.Dirent, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pos != off {
		err = hostfs.SeekDir(d.FD, off)
	}
	d.pos = -1
	if err == nil {
		entries, err = read(d.FD, buf)
	}
	switch {
	case len(entries) > 0:
		d.pos = entries[len(entries)-1].Off
	case err == nil && off == 0, errors.Is(err, posix.EBADF):
		entries, err = d.readAnew(buf, off)
	}
	return entries, unlistable(err)
}

// readAnew reads the directory by another descriptor. It may be listed by now, which it could not be when it was opened. And
// a directory lists at least itself, and yet ext4 was seen to list nothing from the start of one whose
// descriptor had listed it all before; the next try was right (Linux 6.18).
func (d *cachedDir[N]) readAnew(buf []byte, off int64) ([]hostfs.Dirent, error) {
	fd, err := hostfs.OpenSelf(d.FD, posix.O_RDONLY|posix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = hostfs.Close(fd) }()
	if off != 0 {
		if err := hostfs.SeekDir(fd, off); err != nil {
			return nil, err
		}
	}
	return read(fd, buf)
}

func read(fd int, buf []byte) (entries []hostfs.Dirent, err error) {
	_, err = hostfs.ReadAllDirents(fd, buf, func(e hostfs.Dirent) bool {
		entries = append(entries, e)
		return true
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// unlistable is the error of a descriptor that is O_PATH: we may enter but not list it.
func unlistable(err error) error {
	if errors.Is(err, posix.EBADF) {
		return posix.EACCES
	}
	return err
}

// errStaleDir turns the errors of a walk by names that we only believed into ESTALE, upon which the
// client looks the path up afresh.
func errStaleDir(err error) error {
	for _, e := range []posix.Errno{posix.ENOENT, posix.ENOTDIR, posix.ELOOP} {
		if errors.Is(err, e) {
			return posix.ESTALE
		}
	}
	return err
}
