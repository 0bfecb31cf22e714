package posixmeta

import (
	"container/list"
	"fmt"
	"sync"
)

// DefaultMaxDirs is how many directories an [Index] remembers.
const DefaultMaxDirs = 1024

// Index finds names that differ only in case. It remembers the names of
// directories; version says whether they are still true (the directory's time of
// modification does). It is safe for concurrent use; whoever makes names in one
// directory concurrently must hold a lock of its own from Check to Added.
type Index struct {
	max int

	mu   sync.Mutex
	dirs map[string]*list.Element // of *indexed
	lru  list.List                // most recent first
}

type indexed struct {
	dir     string
	version int64
	names   map[string]string // folded: as it is
}

// NewIndex makes an index of at most maxDirs directories ([DefaultMaxDirs] if 0).
func NewIndex(maxDirs int) *Index {
	if maxDirs <= 0 {
		maxDirs = DefaultMaxDirs
	}
	return &Index{max: maxDirs, dirs: make(map[string]*list.Element)}
}

// Check returns an error wrapping [ErrCollision] if name cannot be made in dir
// because another there differs from it only in case. The same name is none:
// what happens to that is the operation's affair. list is called where the
// index does not know the directory in this version; its error is returned.
func (x *Index) Check(dir string, version int64, list func() ([]string, error), name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(dir)
	if d == nil || d.version != version {
		names, err := list()
		if err != nil {
			return err
		}
		d = x.put(dir)
		d.version, d.names = version, make(map[string]string, len(names))
		for _, n := range names {
			d.names[Fold(n)] = n
		}
	}
	if other, ok := d.names[Fold(name)]; ok && other != name {
		return fmt.Errorf("%w: %q and %q", ErrCollision, name, other)
	}
	return nil
}

// Forget makes the next Check list the directory.
func (x *Index) Forget(dir string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(dir)
}

// Changed notes that we made or removed a name in dir, which brought it from
// version before to now; "" for none. What it cannot be sure of it forgets.
func (x *Index) Changed(dir string, before, now int64, made, removed string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(dir)
	switch {
	case d == nil:
	case d.version != before:
		x.forget(dir)
	default:
		if removed != "" {
			delete(d.names, Fold(removed))
		}
		if made != "" {
			d.names[Fold(made)] = made
		}
		d.version = now
	}
}

func (x *Index) get(dir string) *indexed {
	e := x.dirs[dir]
	if e == nil {
		return nil
	}
	x.lru.MoveToFront(e)
	return e.Value.(*indexed)
}

// put returns the directory's place, making room.
func (x *Index) put(dir string) *indexed {
	if d := x.get(dir); d != nil {
		return d
	}
	for x.lru.Len() >= x.max {
		x.forget(x.lru.Back().Value.(*indexed).dir)
	}
	d := &indexed{dir: dir}
	x.dirs[dir] = x.lru.PushFront(d)
	return d
}

func (x *Index) forget(dir string) {
	if e := x.dirs[dir]; e != nil {
		x.lru.Remove(e)
		delete(x.dirs, dir)
	}
}
