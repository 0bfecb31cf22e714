package vfs

import (
	"errors"
	"path"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Outdated is what a client that caches must forget, by the numbers that it knows.
type Outdated struct {
	Nodes map[uint64]bool // content and attributes
	Names []Name
	Paths []string // of [Tree.Edited], relative to the root: what somebody outside changed
}

// Name is an entry of a directory.
type Name struct {
	Dir  uint64
	Name string
}

// Empty tells whether there is nothing to forget.
func (o *Outdated) Empty() bool { return len(o.Nodes)+len(o.Names) == 0 }

func (o *Outdated) node(id uint64) {
	if o.Nodes == nil {
		o.Nodes = make(map[uint64]bool)
	}
	o.Nodes[id] = true
}

func (o *Outdated) name(dir uint64, name string) { o.Names = append(o.Names, Name{dir, name}) }

// Invalidate makes the tree look again at what changed behind it, and returns what
// the client must forget.
func (t *Tree) Invalidate(c fsbridge.Changes) (o Outdated) {
	t.dirs.Moved()
	if c.All {
		o.node(RootID)
		t.nodes.All(func(n *node) bool {
			o.node(n.id)
			for b := n.names.Load(); b != nil; b = b.Next {
				o.name(b.Parent.id, b.Name)
			}
			return true
		})
	}
	for _, ch := range c.List {
		if n := t.find(ch.Dir); n != nil && ch.Name != "" {
			o.node(n.id)
			o.name(n.id, ch.Name)
		}
		if n := t.find(ch.ID); n != nil {
			o.node(n.id)
		}
	}
	return o
}

// Edited returns what the client must forget because of names that somebody outside
// may have changed. What the client knows as it is, because it did it itself, is not
// in it. A file that the client writes to is told to busy instead, with its path: see
// [Tree.Recheck]. Errors are ignored: what cannot be looked at is gone again.
func (t *Tree) Edited(dirs []fsbridge.DirChanges, busy func(node uint64, path string)) (o Outdated) {
	for i := range dirs {
		t.edited(&dirs[i], &o, busy)
	}
	if !o.Empty() {
		t.dirs.Moved()
	}
	return o
}

// Recheck looks again at a file that [Tree.Edited] found busy. It tells whether the
// client has written to it since, and if not, whether it is other than the client
// knows: what we ourselves left when the last writer closed it is known.
func (t *Tree) Recheck(node uint64) (busy, outdated bool) {
	n := t.nodes.Get(node)
	if n == nil {
		return false, false
	}
	busy = n.flags.And(^flagWrote)&flagWrote != 0
	st, err := n.stat()
	return busy, err != nil || !n.noted(&st)
}

// Unwatched says that nobody watches these directories any more: OnList is called
// before they are used again. It returns what the client must forget.
func (t *Tree) Unwatched(dirs []hostfs.ID) (o Outdated) {
	gone := make(map[*node]bool)
	for _, id := range dirs {
		if n := t.find(id); n != nil && n.isDir() {
			n.flags.And(^(flagListed | flagUnwatched))
			gone[n] = true
			o.node(n.id)
		}
	}
	if len(gone) == 0 {
		return o
	}
	t.nodes.All(func(n *node) bool {
		for b := n.names.Load(); b != nil; b = b.Next {
			if gone[b.Parent] || gone[n] { // the entry of the directory takes along what was not found in it
				o.name(b.Parent.id, b.Name)
				o.node(n.id)
			}
		}
		return true
	})
	t.dirs.Moved()
	return o
}

// edited adds what the client must forget of some names in a directory. busy may be
// nil.
func (t *Tree) edited(c *fsbridge.DirChanges, o *Outdated, busy func(node uint64, path string)) {
	dir, fd, done := t.editedDir(c)
	if dir == nil {
		t.arrivedIn(c)
		return
	}
	defer done()
	dst, err := hostfs.StatFD(fd)
	if err != nil {
		return
	}
	if !dir.noted(&dst) {
		o.node(dir.id)
	}
	for _, name := range c.Names {
		was, at := len(o.Nodes)+len(o.Names), path.Join(c.Path, name)
		if t.editedName(dir, fd, name, at, o, busy); len(o.Nodes)+len(o.Names) > was {
			o.Paths = append(o.Paths, at)
		}
	}
}

func (t *Tree) editedName(dir *node, fd int, name, at string, o *Outdated, busy func(node uint64, path string)) {
	if name == "" {
		return
	}
	st, err := hostfs.StatAt(fd, name)
	if err != nil && t.removed.Take(dir.id, name) && errors.Is(err, posix.ENOENT) {
		return
	}
	if err == nil {
		if n := t.find(st.ID); n != nil { // also by another name
			switch {
			case n.noted(&st):
			case busy != nil && n.flags.And(^flagWrote)&flagWrote != 0:
				busy(n.id, at)
			default:
				o.node(n.id)
			}
			if n.names.Has(dir, name) {
				return
			}
			t.arrived(fd, name, &st)
		}
	}
	o.name(dir.id, name)
}

// editedDir opens a directory that the client knows, by its number or else by its
// path; dir is nil if there is none.
func (t *Tree) editedDir(c *fsbridge.DirChanges) (dir *node, fd int, done func()) {
	if c.ID != (hostfs.ID{}) {
		if dir = t.find(c.ID); dir == nil {
			return nil, -1, nil
		}
		if d, err := t.dirs.acquire(dir); err == nil {
			return dir, d.FD, func() { t.dirs.Release(d) }
		}
	}
	fd, err := t.opts.Root.OpenPath(c.Path, posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return nil, -1, nil
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && (dir == nil || dir.obj.ID == st.ID) {
		dir = t.find(st.ID)
	}
	if err != nil || dir == nil || dir.obj.ID != st.ID {
		_ = hostfs.Close(fd)
		return nil, -1, nil
	}
	return dir, fd, func() { _ = hostfs.Close(fd) }
}
