package vfs

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// dirFD is a directory's descriptor, pinned while a request uses it.
type dirFD = cachedDir[*node]

// dirCache has the descriptors of the tree's directories.
type dirCache struct{ *openDirs[*node] }

// acquire returns a pinned descriptor of the directory n: ESTALE if it is not
// where its names say, ENOENT if it was removed, ENOTDIR if it is none.
func (c dirCache) acquire(n *node) (*dirFD, error) {
	switch {
	case !n.isDir():
		return nil, posix.ENOTDIR
	case !n.linked():
		return nil, posix.ENOENT
	}
	return c.Acquire(n)
}

// In calls f with a descriptor of a directory, on the host.
func (t *Tree) In(dir uint64, f func(fd int) error) error {
	n, err := t.dir(dir)
	if err != nil {
		return err
	}
	d, err := t.dirs.acquire(n)
	if err != nil {
		return err
	}
	defer t.dirs.Release(d)
	return f(d.FD)
}

// places says where the directories of a tree are: see [dirCacheTree].
type places struct{ *Tree }

// Hold implements [dirCacheTree].
func (t places) Hold() (release func()) {
	t.renames.RLock()
	return t.renames.RUnlock
}

// Up implements [dirCacheTree].
func (t places) Up(n *node) (parent *node, name string, ok bool) {
	if n.isRoot() {
		return n, "", true
	}
	b := n.names.Load()
	if b == nil {
		return nil, "", false
	}
	return b.Parent, b.Name, true
}

// Open implements [dirCacheTree].
func (t places) Open(from *dirFD, path string, n *node) (int, error) {
	at := t.opts.Root.FD()
	if from != nil {
		at = from.FD
	}
	fd, err := hostfs.OpenBeneath(at, path, posix.O_RDONLY|posix.O_DIRECTORY)
	if errors.Is(err, posix.EACCES) {
		fd, err = hostfs.OpenBeneath(at, path, posix.O_PATH|posix.O_DIRECTORY)
	}
	if err != nil {
		return -1, errStaleDir(err)
	}
	fd, st, err := hostfs.Described(fd)
	if err == nil && st.ID != n.obj.ID {
		_ = hostfs.Close(fd)
		return -1, posix.ESTALE
	}
	return fd, errStaleDir(err)
}

// openDir opens the directory n itself with flags.
func (t *Tree) openDir(n *node, flags int) (int, hostfs.Stat, error) {
	d, err := t.dirs.acquire(n)
	if err != nil {
		return -1, hostfs.Stat{}, err
	}
	defer t.dirs.Release(d)
	fd, err := hostfs.OpenSelf(d.FD, flags)
	if err != nil {
		return -1, hostfs.Stat{}, err
	}
	return hostfs.Described(fd)
}

// bury notes what a directory was, before it loses its name for good: a process may have it open.
func (n *node) bury(st *hostfs.Stat) {
	if n.isDir() {
		last := *st
		n.gone.Store(&last)
	}
}

// statDir describes a directory: by its open descriptor, even when it was
// removed, else by its name, or as it was when it was removed.
func (t *Tree) statDir(n *node) (hostfs.Stat, error) {
	d := t.dirs.Cached(n)
	if d == nil {
		if last := n.gone.Load(); last != nil && !n.linked() {
			return *last, nil
		}
		if b := n.names.Load(); b != nil {
			return t.statBound(n, b)
		}
		var err error
		if d, err = t.dirs.acquire(n); err != nil {
			return hostfs.Stat{}, err
		}
	}
	defer t.dirs.Release(d)
	return hostfs.StatFD(d.FD)
}

func (t *Tree) statBound(n *node, b *binding) (hostfs.Stat, error) {
	d, err := t.dirs.acquire(b.Parent)
	if err != nil {
		return hostfs.Stat{}, err
	}
	defer t.dirs.Release(d)
	st, err := hostfs.StatAt(d.FD, b.Name)
	if err == nil && st.ID != n.obj.ID {
		err = posix.ESTALE
	}
	return st, errStaleDir(err)
}
