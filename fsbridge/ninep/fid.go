package ninep

import (
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// node is a file that fids lead to. It has one reference to the tree's node,
// and keeps the directories alive in which the tree found it: like a kernel,
// the tree reaches a file by its directories' names, and is told of renames only by
// the nodes that it has.
type node struct {
	id  uint64 // the tree's
	typ uint32 // S_IFMT
	ino uint64

	// Guarded by session.mu. places are where it was seen, the newest last; a
	// rename leaves some that are not true any more.
	refs   int
	places []place
	locks  []lock
}

// place is a name in a directory, to which it has a reference.
type place struct {
	dir  *node
	name string
}

// maxPlaces bounds what a file with many links keeps alive.
const maxPlaces = 8

func (n *node) isDir() bool { return n.typ == posix.S_IFDIR }

func (n *node) qid(version uint32) qid {
	q := qid{version: version, path: n.ino}
	switch n.typ {
	case posix.S_IFDIR:
		q.kind = qidDir
	case posix.S_IFLNK:
		q.kind = qidSymlink
	}
	return q
}

// versionOf makes a qid's version of what changes with the content.
func versionOf(a *vfs.Attr) uint32 {
	v := uint64(a.MtimeNano)
	return uint32(v) ^ uint32(v>>32) ^ uint32(a.Size<<8)
}

// fid is what a client's number stands for. It is counted: a request may use
// it while the client gives it up.
type fid struct {
	node *node

	// Guarded by session.mu.
	refs   int
	open   bool
	fh     uint64 // of the tree, if open and no directory
	writer bool
	xattr  *xattr // it is no file any more but an attribute
}

// root returns the node that a client attaches to, with a reference.
func (s *session) root(a *vfs.Attr) *node {
	return s.node(vfs.RootID, a, nil, "")
}

// node returns the node with the tree's number id, with a reference. It takes
// over one reference to the tree's node, which was found as name in parent.
func (s *session) node(id uint64, a *vfs.Attr, parent *node, name string) *node {
	s.mu.Lock()
	n, known := s.nodes[id], true
	if n == nil {
		known = false
		n = &node{id: id, typ: a.Mode & posix.S_IFMT, ino: a.Ino}
		s.nodes[id] = n
	}
	n.refs++
	var dropped *node
	if parent != nil {
		at := place{parent, name}
		if i := slices.Index(n.places, at); i >= 0 {
			n.places = slices.Delete(n.places, i, i+1)
		} else {
			parent.refs++
			if len(n.places) == maxPlaces {
				dropped = n.places[0].dir
				n.places = slices.Delete(n.places, 0, 1)
			}
		}
		n.places = append(n.places, at)
	}
	s.mu.Unlock()
	if known && id != vfs.RootID {
		s.tree.Forget(id, 1)
	}
	s.drop(dropped)
	return n
}

// drop gives up a reference to a node.
func (s *session) drop(n *node) {
	if n == nil {
		return
	}
	var gone []uint64
	s.mu.Lock()
	for left := []*node{n}; len(left) > 0; {
		n, left = left[len(left)-1], left[:len(left)-1]
		n.refs--
		if n.refs > 0 {
			continue
		}
		s.locks -= len(n.locks)
		n.locks = nil
		delete(s.nodes, n.id)
		gone = append(gone, n.id)
		for _, p := range n.places {
			left = append(left, p.dir)
		}
	}
	s.mu.Unlock()
	for _, id := range gone {
		if id != vfs.RootID {
			s.tree.Forget(id, 1)
		}
	}
}

// places returns where n was seen, the newest first, with references to the
// directories.
func (s *session) places(n *node) []place {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(n.places)
	slices.Reverse(all)
	for _, p := range all {
		p.dir.refs++
	}
	return all
}

// get returns the fid with this number, with a reference; put it.
func (s *session) get(number uint32) *fid {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fids[number]
	if f != nil {
		f.refs++
	}
	return f
}

// put gives up a reference to a fid. The last one closes the file.
func (s *session) put(f *fid) {
	if f == nil {
		return
	}
	s.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last && f.open && !f.node.isDir() {
		s.opened--
	}
	if last && f.xattr != nil {
		s.xattrs -= f.xattr.size
	}
	s.mu.Unlock()
	if !last {
		return
	}
	if f.open && !f.node.isDir() {
		s.tree.Release(f.fh)
	}
	s.drop(f.node)
}

// add makes number stand for f, whose references are the table's and, until it
// is full or taken, the caller's node.
func (s *session) add(number uint32, f *fid) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case number == noFID || s.fids[number] != nil:
		return posix.EBADF
	case len(s.fids) >= s.server.o.MaxFIDs:
		return posix.ENFILE
	}
	f.refs = 1
	s.fids[number] = f
	return nil
}

// reserve counts a fid that is about to become an open file.
func (s *session) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened >= s.server.o.MaxOpen {
		return posix.ENFILE
	}
	s.opened++
	return nil
}

func (s *session) unreserve() {
	s.mu.Lock()
	s.opened--
	s.mu.Unlock()
}
