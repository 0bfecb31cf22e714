package undolog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/pack"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
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
	dir  journal.ObjID
	name string
}

// node is an object of the target with what is known of it now.
type node struct {
	*journal.Object
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

// layer is one step read back: what was true before it, and where the bytes lie that
// make it true again. Loading it changes nothing, in the folder or in the log.
type layer struct {
	dir   *store.StepDir
	rec   *journal.Set
	nodes map[journal.ObjID]*node
	order []*node
	binds map[journal.ObjID][]bind // sorted by name
	next  journal.ObjID            // the lowest number above all
	// children are objects whose binding was not touched, by directory.
	children map[journal.ObjID][]*node
	byHost   map[hostfs.ID]*node
	pack     *pack.Reader // nil: none
	own      int          // descriptor of the step's blobs, -1: none
	// twins are copies in the blobs of files that had other names, and the numbers of
	// those files today.
	twins map[hostfs.ID]hostfs.ID
	// damage says what is wrong with the contents of a layer that was loaded all the same.
	damage error

	read *reading
}

// loadOptions say how [loadLayer] takes what is not whole.
type loadOptions struct {
	open  bool // the step was never closed: its journal may be torn
	force bool // load what there is
	// renumbered tells the present inode numbers of records begun at a moment.
	renumbered func(birth uint64) (*store.Renumber, error)
}

// loadLayer makes a layer of what is being read. The step directory must stay open as long as
// the layer is used. What is damaged is an error wrapping [base.ErrDamaged]. Close the layer; after an
// error the reading is closed.
func loadLayer(read *reading, o loadOptions) (_ *layer, err error) {
	dir := read.dir
	defer func() {
		if err != nil {
			read.close()
		}
	}()
	rec, err := read.records()
	if err != nil {
		return nil, err
	}
	if rec.Torn != nil && !o.open && !o.force {
		return nil, fmt.Errorf("%w: %w", base.ErrDamaged, rec.Torn)
	}
	l := newLayer(dir, rec)
	l.read, l.own = read, read.blobs
	made, err := store.ReadMade(dir.FD)
	if err != nil {
		return nil, err
	}
	now, err := o.renumbered(rec.Step.Born())
	if err != nil {
		return nil, err
	}
	for _, m := range made {
		if n := l.nodes[m.Obj]; n != nil && (n.ID.Ino == 0 || n.ID == m.Old) {
			l.setID(n, m.New)
		}
		if delete(l.twins, m.New); m.Shared {
			l.twins[m.New] = now.Now(m.Old)
		}
	}
	if l.pack, l.damage = read.pack(); l.damage == nil && !o.open {
		l.damage = dir.VerifyContents(rec)
	}
	if l.damage != nil && !o.force {
		l.close()
		return nil, l.damage
	}
	l.remap(now)
	l.index()
	return l, nil
}

// close ends the reading. The second time it does nothing.
func (l *layer) close() {
	l.read.close()
	l.own = -1
	if l.pack != nil {
		l.pack.Close()
		l.pack = nil
	}
}

func newLayer(dir *store.StepDir, rec *journal.Set) *layer {
	l := &layer{
		dir: dir, rec: rec, next: journal.RootObj + 1, own: -1,
		nodes: make(map[journal.ObjID]*node, len(rec.Objects)),
		order: make([]*node, 0, len(rec.Objects)),
		binds: map[journal.ObjID][]bind{}, children: map[journal.ObjID][]*node{},
		byHost: make(map[hostfs.ID]*node, len(rec.Objects)),
		twins:  map[hostfs.ID]hostfs.ID{},
	}
	slab := make([]node, len(rec.Order))
	for i, id := range rec.Order {
		n := &slab[i]
		n.Object = rec.Objects[id]
		if !n.Created {
			n.typ = n.Meta.Mode & unix.S_IFMT
		}
		n.content = len(rec.Contents[id]) > 0
		_, n.xattrs = rec.Xattrs[id]
		l.nodes[id] = n
		l.order = append(l.order, n)
		l.next = max(l.next, id+1)
	}
	for _, k := range rec.Keys() {
		l.binds[k.Dir] = append(l.binds[k.Dir], bind{name: k.Name, want: l.nodes[rec.Bindings[k]]})
	}
	for _, b := range l.binds {
		slices.SortFunc(b, func(a, b bind) int { return strings.Compare(a.name, b.name) })
	}
	for _, n := range l.order {
		if n.Parent != journal.NoObj && l.bind(n.Parent, n.Name) == nil {
			l.children[n.Parent] = append(l.children[n.Parent], n)
		}
	}
	return l
}

// remap gives the objects the numbers that they have now.
func (l *layer) remap(r *store.Renumber) {
	for _, n := range l.order {
		if n.ID.Ino == 0 || l.rec.Gone[n.Obj] || l.rec.Freed[n.Obj] || l.inPack(n.Obj) {
			continue // that number died with the records
		}
		if id := r.Now(n.ID); id != n.ID {
			l.setID(n, id)
		}
	}
}

// setID gives n another number, in the records as well.
func (l *layer) setID(n *node, id hostfs.ID) {
	r := *n.Object
	r.ID = id
	n.Object = &r
	l.rec.Objects[n.Obj] = &r
}

// bind returns the touched binding (dir, name), or nil.
func (l *layer) bind(dir journal.ObjID, name string) *bind {
	b := l.binds[dir]
	i, ok := slices.BinarySearchFunc(b, name, func(b bind, name string) int { return strings.Compare(b.name, name) })
	if !ok {
		return nil
	}
	return &b[i]
}

// index makes byHost. Objects whose number means nothing any more are left
// out: those that are packed, and those that were freed and replaced.
func (l *layer) index() {
	for _, n := range l.order {
		if n.ID.Ino == 0 || l.rec.Gone[n.Obj] || (!n.made && l.inPack(n.Obj)) {
			continue
		}
		if !n.made && l.rec.Freed[n.Obj] {
			if _, taken := l.byHost[n.ID]; taken {
				continue
			}
		}
		l.byHost[n.ID] = n
	}
}

// find returns the object with the number id and type mode that may be bound
// by b.
func (l *layer) find(id hostfs.ID, mode uint32, b *bind) *node {
	n := l.byHost[id]
	if n == nil || (n.typ != 0 && n.typ != mode&unix.S_IFMT) {
		return nil
	}
	if l.rec.Freed[n.Obj] && !n.made && (b == nil || b.want != n) {
		return nil // perhaps another inode with its number
	}
	return n
}

// makeable tells whether the records can make n anew.
func (l *layer) makeable(n *node) bool {
	switch n.typ {
	case unix.S_IFDIR, unix.S_IFIFO, unix.S_IFSOCK:
		return !n.Created
	case unix.S_IFLNK:
		return n.Meta.Target != ""
	case unix.S_IFREG:
		return l.inPack(n.Obj) || l.rec.Complete(n.Obj)
	}
	return false
}

// nameless tells whether n may have a name that the records do not tell.
func (l *layer) nameless(n *node) bool {
	linked := n.Meta.Nlink > 1 && !n.isDir() && !l.rec.Freed[n.Obj]
	return !n.Created && n.Obj != journal.RootObj && (n.Parent == journal.NoObj && n.RetainedSeq == 0 || linked)
}

// blobObject returns whose blob has the name digits in a shard; false says that it
// is a content blob, or nothing of ours.
func blobObject(digits string, shard uint64) (journal.ObjID, bool) {
	id, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || store.BlobName(journal.ObjID(id)) != digits || store.ShardOf(journal.ObjID(id)) != shard {
		return journal.NoObj, false
	}
	return journal.ObjID(id), true
}

// findOwn places the objects that are in the layer's own blobs. It is called once.
func (l *layer) findOwn() error {
	for some := range l.read.scan.some {
		for _, b := range some {
			if b.err != nil {
				return b.err
			}
			for i, x := range b.entries {
				id, ok := blobObject(x.Name, b.shard)
				if n := l.nodes[id]; ok && n != nil && n.Obj != journal.RootObj {
					if err := l.findInOwn(n, &b.stats[i]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (l *layer) findInOwn(n *node, st *hostfs.Stat) error {
	if n.typ != 0 && st.Type() != n.typ {
		return fmt.Errorf("%w: blob of object %d has the wrong type", base.ErrDamaged, n.Obj)
	}
	if n.Created || !l.rec.Retained[n.Obj] {
		return nil
	}
	if st.ID != n.ID { // retaining meant copying
		l.setID(n, st.ID)
	}
	l.byHost[st.ID] = n
	n.shared = !st.IsDir() && st.Nlink > 1
	n.compare(st)
	n.place = place{kind: inOwn}
	return nil
}

// compare notes whether the metadata of n, which is as st says, must be put right.
func (n *node) compare(st *hostfs.Stat) {
	m := &n.Meta
	n.several = !st.IsDir() && (st.Nlink > 1 || !n.Created && m.Nlink > 1)
	n.dirty = !n.Created && (n.content || n.xattrs || st.Mode&0o7777 != m.Mode&0o7777 ||
		st.UID != m.UID || st.GID != m.GID || st.Mtime != m.Mtime)
}

// openOwn opens the directory that holds the blob of n, O_PATH. The caller closes it.
func (l *layer) openOwn(n *node) (int, error) {
	if l.own < 0 {
		return -1, fmt.Errorf("open blobs: %w", unix.ENOENT)
	}
	return hostfs.OpenDirPathAt(l.own, store.ShardName(n.Obj))
}

// inPack tells whether obj is packed.
func (l *layer) inPack(obj journal.ObjID) bool { return l.pack != nil && l.pack.Has(obj) }

// unpackFile writes the content of a packed file to the new file fd.
func (l *layer) unpackFile(n *pack.Node, fd int) error {
	if last := len(n.Segments) - 1; last < 0 || n.Segments[last].Off+n.Segments[last].Len < n.Meta.Size {
		if err := hostfs.TruncateFD(fd, n.Meta.Size); err != nil {
			return err
		}
	}
	err := l.pack.Content(n, func(off int64, b []byte) error { return hostfs.PwriteFull(fd, b, off) })
	if err != nil {
		return fmt.Errorf("%w: %w", base.ErrDamaged, err)
	}
	return nil
}

// putContent writes what was captured of n, and its size.
func (l *layer) putContent(n *node, fd int) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if st.Size != n.Meta.Size {
		if err := hostfs.TruncateFD(fd, n.Meta.Size); err != nil {
			return err
		}
	}
	for i := range l.rec.Contents[n.Obj] {
		c := &l.rec.Contents[n.Obj][i]
		if c.Off+c.Len > n.Meta.Size {
			return fmt.Errorf("%w: content beyond the end of object %d", base.ErrDamaged, n.Obj)
		}
		if c.Enc == journal.EncHole && c.Off >= st.Size { // fresh from truncate: a hole already
			continue
		}
		if err := l.dir.WriteContent(c, fd); err != nil {
			return err
		}
	}
	return nil
}
