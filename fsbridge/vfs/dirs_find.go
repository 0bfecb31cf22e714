package vfs

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// placed is a directory on the way from one of the tree up to its root.
type placed struct {
	st   hostfs.Stat
	name string // in the one above
}

// Find implements [dirCacheTree]: up from the descriptor to the root, and then down again, so that each directory on the way has the name that it has now.
// Nothing is found outside of the root, nor in what is hidden.
func (t places) Find(d *dirFD) bool { return t.settle(d.FD, d.Node) }

// settle is Find for a descriptor of the directory n.
func (t places) settle(fd int, n *node) bool {
	if t.opts.Posix != nil { // names are not the host's
		return false
	}
	defer t.Hold()()
	way, ok := t.upFrom(fd)
	if !ok {
		return false
	}
	parent := t.root
	for i := len(way) - 1; i >= 0; i-- {
		p := &way[i]
		if t.hidden.entry(parent, p.name) || t.hidden.inode(p.st.ID) {
			return false
		}
		at := t.find(p.st.ID)
		if at == nil || !at.isDir() {
			at = t.lookup(&p.st, nil, "", false) // a reference for good: what is below needs it, and the client does not know it
		}
		at.names.Bind(parent, p.name, true)
		parent = at
	}
	return parent == n
}

// arrived settles a directory that the client knows, if it is at a name below the directory fd where nobody knew it: somebody outside has moved it there.
func (t *Tree) arrived(fd int, name string, st *hostfs.Stat) {
	n := t.find(st.ID)
	if st.Type() != posix.S_IFDIR || n == nil || !n.isDir() || n.isRoot() || !n.linked() {
		return
	}
	at, err := hostfs.OpenBeneath(fd, name, posix.O_PATH|posix.O_DIRECTORY|posix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer func() { _ = hostfs.Close(at) }()
	if is, err := hostfs.StatFD(at); err == nil && is.ID == n.obj.ID {
		places{t}.settle(at, n)
	}
}

// arrivedIn is arrived for names in a directory that the client does not know.
func (t *Tree) arrivedIn(c *fsbridge.DirChanges) {
	fd, err := t.opts.Root.OpenPath(c.Path, posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer func() { _ = hostfs.Close(fd) }()
	for _, name := range c.Names {
		if st, err := hostfs.StatAt(fd, name); err == nil && name != "" {
			t.arrived(fd, name, &st)
		}
	}
}

// upFrom returns the directories from fd up to one below the root.
func (t places) upFrom(fd int) (way []placed, ok bool) {
	at, err := hostfs.OpenSelf(fd, posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return nil, false
	}
	defer func() { _ = hostfs.Close(at) }()
	for len(way) < maxDirDepth {
		st, err := hostfs.StatFD(at)
		if err != nil {
			return nil, false
		}
		if st.ID == t.root.obj.ID {
			return way, true
		}
		name, err := hostfs.NameOf(at)
		if err != nil {
			return nil, false
		}
		up, err := posix.Parent(at)
		if err != nil {
			return nil, false
		}
		_ = hostfs.Close(at)
		at = up
		if below, err := hostfs.StatAt(up, name); err != nil || below.ID != st.ID { // removed, at the top, or moved meanwhile
			return nil, false
		}
		way = append(way, placed{st, name})
	}
	return nil, false
}
