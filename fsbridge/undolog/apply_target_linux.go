package undolog

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// placeKind says where an object is now.
type placeKind uint8

const (
	nowhere placeKind = iota
	inTree            // at name in directory dir
	inOwn             // in the blobs of the target
	inHold            // in the hold
	inMade            // in the hold, made there and complete
	inOlder           // in the blobs of an older step, or at the path name there
	inPark            // in the root directory, on its way to its binding
)

type place struct {
	kind placeKind
	dir  objID
	name string
}

// node is an object of the target with what is known of it now.
type node struct {
	*objectRecord
	place place
	// typ is the S_IFMT bits; 0 for a created object that was not found.
	typ     uint32
	content bool // the target has content records
	xattrs  bool // the target has its attributes
	made    bool // made anew by this apply: it has a new number
	fresh   bool // made in this run: content and metadata are right
	dirty   bool // its metadata is not as recorded
	several bool // a file that has or had more than one name
	shared  bool // a file that has other names than the one in a blob
	inverse bool // the inverse has a full record of it
	seen    bool // visited by a walk
	wanted  bool // some binding lacks it
	goes    bool // to a binding, in this apply
	// occupies: it is where something else should be.
	occupies bool
	leaving  bool // a follower is about to put it where it is wanted
	came     bool // was put where it is by this run
	right    bool // a directory whose metadata was put right by this run
	stays    bool // some touched binding has it, and rightly so
}

func (n *node) isDir() bool { return n.typ == unix.S_IFDIR }

// bind is a touched binding: what should be there and what is.
type bind struct {
	name string
	want *node // nil: nothing
	// occ describes what is there; a zero Ino says nothing.
	occ     hostfs.ID
	occMode uint32
	occNode *node // the object that it is, if it is one of the target's
	wrong   bool
}

// target is what shall be true again: the records of one step, indexed by
// object and directory.
type target struct {
	dir   *stepDir
	rec   *stepRecords
	nodes map[objID]*node
	order []*node
	binds map[objID][]bind // sorted by name
	next  objID            // the lowest number above all
	// children are objects whose binding was not touched, by directory.
	children map[objID][]*node
	byHost   map[hostfs.ID]*node
}

func newTarget(dir *stepDir, rec *stepRecords) *target {
	t := &target{
		dir: dir, rec: rec, next: rootObj + 1,
		nodes: make(map[objID]*node, len(rec.Objects)),
		order: make([]*node, 0, len(rec.Objects)),
		binds: map[objID][]bind{}, children: map[objID][]*node{},
		byHost: make(map[hostfs.ID]*node, len(rec.Objects)),
	}
	slab := make([]node, len(rec.Order))
	for i, id := range rec.Order {
		n := &slab[i]
		n.objectRecord = rec.Objects[id]
		if !n.Created {
			n.typ = n.Meta.Mode & unix.S_IFMT
		}
		n.content = len(rec.Contents[id]) > 0
		_, n.xattrs = rec.Xattrs[id]
		t.nodes[id] = n
		t.order = append(t.order, n)
		t.next = max(t.next, id+1)
	}
	for _, k := range rec.bindingKeys() {
		t.binds[k.Dir] = append(t.binds[k.Dir], bind{name: k.Name, want: t.nodes[rec.Bindings[k]]})
	}
	for _, b := range t.binds {
		slices.SortFunc(b, func(a, b bind) int { return strings.Compare(a.name, b.name) })
	}
	for _, n := range t.order {
		if n.Parent != noObj && t.bind(n.Parent, n.Name) == nil {
			t.children[n.Parent] = append(t.children[n.Parent], n)
		}
	}
	return t
}

// bind returns the touched binding (dir, name), or nil.
func (t *target) bind(dir objID, name string) *bind {
	b := t.binds[dir]
	i, ok := slices.BinarySearchFunc(b, name, func(b bind, name string) int { return strings.Compare(b.name, name) })
	if !ok {
		return nil
	}
	return &b[i]
}

// index makes byHost. Objects whose number means nothing any more are left
// out: those that are packed, and those that were freed and replaced.
func (t *target) index(packed func(objID) bool) {
	for _, n := range t.order {
		if n.ID.Ino == 0 || t.rec.Gone[n.Obj] || (!n.made && packed(n.Obj)) {
			continue
		}
		if !n.made && t.rec.Freed[n.Obj] {
			if _, taken := t.byHost[n.ID]; taken {
				continue
			}
		}
		t.byHost[n.ID] = n
	}
}

// find returns the object with the number id and type mode that may be bound
// by b.
func (t *target) find(id hostfs.ID, mode uint32, b *bind) *node {
	n := t.byHost[id]
	if n == nil || (n.typ != 0 && n.typ != mode&unix.S_IFMT) {
		return nil
	}
	if t.rec.Freed[n.Obj] && !n.made && (b == nil || b.want != n) {
		return nil // perhaps another inode with its number
	}
	return n
}

// makeable tells whether the records can make n anew.
func (t *target) makeable(n *node, packed func(objID) bool) bool {
	switch n.typ {
	case unix.S_IFDIR, unix.S_IFIFO, unix.S_IFSOCK:
		return !n.Created
	case unix.S_IFLNK:
		return n.Meta.Target != ""
	case unix.S_IFREG:
		return packed(n.Obj) || t.rec.captured(n.Obj)
	}
	return false
}
