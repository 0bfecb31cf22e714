package layer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// PlaceKind says where an object is now.
type PlaceKind uint8

// The kinds of places. The hold is where an apply puts what is in its way, and makes
// what is missing.
const (
	Nowhere PlaceKind = iota
	InTree            // in the folder, at Name in the directory Dir
	InOwn             // in the blobs of the step
	InHold            // in the hold
	InMade            // in the hold, made there and complete
	InOlder           // in the blobs of an older step, or at the path Name there
	InPark            // in the folder's root, on its way to its binding
)

// Place is where an object is now.
type Place struct {
	Kind PlaceKind
	Dir  format.ObjID
	Name string
}

// InDir is the place of what is name in the directory dir of the folder.
func InDir(dir format.ObjID, name string) Place { return Place{InTree, dir, name} }

// Node is an object of the step with what is known of it now.
type Node struct {
	*format.Object
	Place Place
	// Type is the S_IFMT bits; 0 for a created object that was not found.
	Type    uint32
	Content bool // the step has content records
	Lost    bool // the step did not keep its content
	Missing bool // it was taken away from outside, and is wanted back
	Xattrs  bool // the step has its attributes
	Dirty   bool // its metadata is not as recorded
	Several bool // a file that has, had or will have more than one name
	Shared  bool // a file that has other names than the one in a blob
	Marks
}

// Marks are what an apply found out and decided. In a layer that was loaded they are
// false.
type Marks struct {
	Made     bool // made anew by this apply: it has a new number
	Fresh    bool // made in this run: content and metadata are right
	Brought  bool // copied in this run from the log's file system, which may hold less metadata
	Inverse  bool // the inverse has a full record of it
	Seen     bool // visited by a walk
	Wanted   bool // some binding lacks it
	Goes     bool // to a binding, in this apply
	Occupies bool // it is where something else should be
	Leaving  bool // a follower is about to put it where it is wanted
	Came     bool // was put where it is by this run
	Right    bool // a directory whose metadata was put right by this run
	Stays    bool // some touched binding has it, and rightly so
}

// IsDir tells whether n is a directory, as far as that is known.
func (n *Node) IsDir() bool { return n.Type == posix.S_IFDIR }

// Bind is a touched binding: what should be there and what is.
type Bind struct {
	Name string
	Want *Node // nil: nothing
	// Occ describes what is there; a zero Ino says nothing.
	Occ     hostfs.ID
	OccMode uint32
	OccNode *Node // the object that it is, if it is one of the layer's
	Wrong   bool  // what is there must go, or what should be there must come
}

// Layer is one step read back: what was true before it, and where the bytes lie that
// make it true again. Loading it changes nothing, in the folder or in the log.
type Layer struct {
	Dir   *store.StepDir
	Rec   *format.RecordSet // with the numbers of today
	Nodes map[format.ObjID]*Node
	Order []*Node                 // as they were recorded: ancestors first
	Binds map[format.ObjID][]Bind // sorted by name
	Next  format.ObjID            // the lowest number above all
	// Children are objects whose binding was not touched, by directory.
	Children map[format.ObjID][]*Node
	ByHost   map[hostfs.ID]*Node // by the number that means the object now
	Pack     *store.PackReader   // nil: none
	Own      int                 // descriptor of the step's blobs, -1: none
	// Twins are copies in the blobs of files that had other names, and the numbers of
	// those files today.
	Twins map[hostfs.ID]hostfs.ID
	// Damage says what is wrong with the contents of a layer that was loaded all the same.
	Damage error
	// Bad are the objects the captured contents of which are damaged: they are not put back.
	Bad map[format.ObjID]bool
	// Exact says that only this step is put back, all later ones being undone: a blob that is not as
	// it was retained is damaged then, and as if it were not there. Those are Spoilt. What is left of a step has none.
	Exact  bool
	Spoilt map[format.ObjID]bool

	rest bool // it is what an apply has left
	read *Reading
}

// Options say how [Load] takes what is not whole.
type Options struct {
	Open  bool // the step was never closed: its journal may be torn
	Force bool // load what there is
	// Renumbered tells the present inode numbers of records begun at a moment.
	Renumbered func(birth uint64) (*store.Renumber, error)
}

// Load makes a layer of what is being read. The step directory must stay open as long as
// the layer is used. What is damaged is an error wrapping [format.ErrDamaged]. Close the layer; after an
// error the reading is closed.
func Load(read *Reading, o Options) (_ *Layer, err error) {
	dir := read.Dir
	defer func() {
		if err != nil {
			read.Close()
		}
	}()
	rec, err := read.Records()
	if err != nil {
		return nil, err
	}
	if rec.Torn != nil && !o.Open && !o.Force {
		return nil, fmt.Errorf("%w: %w", format.ErrDamaged, rec.Torn)
	}
	l := newLayer(dir, rec)
	l.read, l.Own = read, read.blobs
	rest, err := store.ReadRest(dir.FD)
	if err != nil {
		return nil, err
	}
	l.rest = rest != nil
	made, err := store.ReadMade(dir.FD, dir.Volumes)
	if err != nil {
		return nil, err
	}
	now, err := o.Renumbered(rec.Step.Born())
	if err != nil {
		return nil, err
	}
	for _, m := range made {
		if n := l.Nodes[m.Obj]; n != nil && (n.ID.Ino == 0 || n.ID == m.Old) {
			l.SetID(n, m.New)
		}
		if delete(l.Twins, m.New); m.Shared {
			l.Twins[m.New] = now.Now(m.Old)
		}
	}
	if l.Pack, l.Damage = read.pack(); l.Damage == nil && !o.Open {
		l.Bad, l.Damage = dir.VerifyContents(rec)
	}
	for id := range rec.Lost {
		if l.Bad == nil {
			l.Bad = map[format.ObjID]bool{}
		}
		l.Bad[id] = true
	}
	if rec.Torn != nil && !o.Open { // what it lacks is not known: whoever forces it is told
		l.Damage = errors.Join(l.Damage, fmt.Errorf("%w: what changed after this is not put back: %w", format.ErrDamaged, rec.Torn))
	}
	if l.Damage != nil && !o.Force {
		l.Close()
		return nil, l.Damage
	}
	l.remap(now)
	l.index()
	return l, nil
}

// Close ends the reading. The second time it does nothing.
func (l *Layer) Close() {
	l.read.Close()
	l.Own = -1
	if l.Pack != nil {
		l.Pack.Close()
		l.Pack = nil
	}
}

func newLayer(dir *store.StepDir, rec *format.RecordSet) *Layer {
	l := &Layer{
		Dir: dir, Rec: rec, Next: format.RootObj + 1, Own: -1,
		Nodes: make(map[format.ObjID]*Node, len(rec.Objects)),
		Order: make([]*Node, 0, len(rec.Objects)),
		Binds: map[format.ObjID][]Bind{}, Children: map[format.ObjID][]*Node{},
		ByHost: make(map[hostfs.ID]*Node, len(rec.Objects)),
		Twins:  map[hostfs.ID]hostfs.ID{},
	}
	slab := make([]Node, len(rec.Order))
	for i, id := range rec.Order {
		n := &slab[i]
		n.Object = rec.Objects[id]
		if !n.Created {
			n.Type = n.Meta.Mode & posix.S_IFMT
		}
		n.Lost = rec.Lost[id]
		n.Content = len(rec.Contents[id]) > 0 && !n.Lost
		_, n.Xattrs = rec.Xattrs[id]
		l.Nodes[id] = n
		l.Order = append(l.Order, n)
		l.Next = max(l.Next, id+1)
	}
	for _, k := range rec.Keys() {
		l.Binds[k.Dir] = append(l.Binds[k.Dir], Bind{Name: k.Name, Want: l.Nodes[rec.Bindings[k]]})
	}
	for _, b := range l.Binds {
		slices.SortFunc(b, func(a, b Bind) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, n := range l.Order {
		if n.Parent != format.NoObj && l.Bind(n.Parent, n.Name) == nil {
			l.Children[n.Parent] = append(l.Children[n.Parent], n)
		}
	}
	return l
}

// remap gives the objects the numbers that they have now.
func (l *Layer) remap(r *store.Renumber) {
	for _, n := range l.Order {
		if n.ID.Ino == 0 || l.Rec.Gone[n.Obj] || l.Rec.Freed[n.Obj] || l.InPack(n.Obj) {
			continue // that number died with the records
		}
		if id := r.Now(n.ID); id != n.ID {
			l.SetID(n, id)
		}
	}
}

// SetID gives n another number, in the records as well.
func (l *Layer) SetID(n *Node, id hostfs.ID) {
	r := *n.Object
	r.ID = id
	n.Object = &r
	l.Rec.Objects[n.Obj] = &r
}

// Bind returns the touched binding (dir, name), or nil.
func (l *Layer) Bind(dir format.ObjID, name string) *Bind {
	b := l.Binds[dir]
	i, ok := slices.BinarySearchFunc(b, name, func(b Bind, name string) int { return strings.Compare(b.Name, name) })
	if !ok {
		return nil
	}
	return &b[i]
}

// index makes byHost. Objects whose number means nothing any more are left
// out: those that are packed, and those that were freed and replaced.
func (l *Layer) index() {
	for _, n := range l.Order {
		if n.ID.Ino == 0 || l.Rec.Gone[n.Obj] || (!n.Made && l.InPack(n.Obj)) {
			continue
		}
		if !n.Made && l.Rec.Freed[n.Obj] {
			if _, taken := l.ByHost[n.ID]; taken {
				continue
			}
		}
		l.ByHost[n.ID] = n
	}
}

// Find returns the object with the number id and type mode that may be bound
// by b.
func (l *Layer) Find(id hostfs.ID, mode uint32, b *Bind) *Node {
	n := l.ByHost[id]
	if n == nil || (n.Type != 0 && n.Type != mode&posix.S_IFMT) {
		return nil
	}
	if l.Rec.Freed[n.Obj] && !n.Made && (b == nil || b.Want != n) {
		return nil // perhaps another inode with its number
	}
	return n
}

// Makeable tells whether the records can make n anew.
func (l *Layer) Makeable(n *Node) bool {
	switch n.Type {
	case posix.S_IFDIR, posix.S_IFIFO, posix.S_IFSOCK:
		return !n.Created
	case posix.S_IFLNK:
		return n.Meta.Target != ""
	case posix.S_IFREG:
		return !l.Bad[n.Obj] && (l.InPack(n.Obj) || l.Rec.Complete(n.Obj))
	}
	return false
}

// Nameless tells whether n may have a name that the records do not tell.
func (l *Layer) Nameless(n *Node) bool {
	linked := n.Meta.Nlink > 1 && !n.IsDir() && !l.Rec.Freed[n.Obj]
	return !n.Created && n.Obj != format.RootObj && (n.Parent == format.NoObj && n.RetainedSeq == 0 || linked)
}

// BlobObject returns whose blob has the name digits in a shard; false says that it
// is a content blob, or nothing of ours.
func BlobObject(digits string, shard uint64) (format.ObjID, bool) {
	id, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || store.BlobName(format.ObjID(id)) != digits || store.ShardOf(format.ObjID(id)) != shard {
		return format.NoObj, false
	}
	return format.ObjID(id), true
}

// FindOwn places the objects that are in the layer's own blobs. It is called once.
func (l *Layer) FindOwn() error {
	for some := range l.read.scan.Some {
		for _, b := range some {
			if b.Err != nil {
				return b.Err
			}
			for i, x := range b.Entries {
				id, ok := BlobObject(x.Name, b.Shard)
				if n := l.Nodes[id]; ok && n != nil && n.Obj != format.RootObj {
					if err := l.findInOwn(n, &b.Stats[i]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (l *Layer) findInOwn(n *Node, st *hostfs.Stat) error {
	if n.Type != 0 && st.Type() != n.Type {
		return fmt.Errorf("%w: blob of object %d has the wrong type", format.ErrDamaged, n.Obj)
	}
	if n.Created || !l.Rec.Retained[n.Obj] {
		return nil
	}
	if (l.Exact || l.rest) && l.changed(n, st) {
		if l.ChangedHere(n, st) && !l.rest { // of what is left, people were told
			if l.Spoilt == nil {
				l.Spoilt = map[format.ObjID]bool{}
			}
			l.Spoilt[n.Obj] = true
			return nil
		}
		n.stay(st)
	}
	if st.ID != n.ID { // retaining meant copying
		l.SetID(n, st.ID)
	}
	l.ByHost[st.ID] = n
	n.Shared = !st.IsDir() && st.Nlink > 1
	n.Compare(st)
	n.Place = Place{Kind: InOwn}
	return nil
}

// coarsest is how much of a time a file system may leave out, in nanoseconds: exFAT's two seconds.
const coarsest = 2_000_000_000

// changed tells whether somebody else wrote to the blob of n, which is as st says. What a step retains without
// having changed it is still of the size and time that it was found with: whoever writes to it by a handle or another name
// does so in a later step, which is undone first, or is outside. If its last change is a write, that was done in the log;
// else it was written to before it was retained, and so in the folder.
func (l *Layer) changed(n *Node, st *hostfs.Stat) bool {
	return n.Type == posix.S_IFREG && st.ID == n.ID && st.Nlink == 1 && !n.Content && !n.Xattrs &&
		(st.Size != n.Meta.Size || st.Mtime > n.Meta.Mtime || st.Mtime < n.Meta.Mtime-coarsest)
}

// ChangedHere tells whether somebody wrote to the blob of n, which is as st says, since it is in the log.
func (l *Layer) ChangedHere(n *Node, st *hostfs.Stat) bool {
	return l.changed(n, st) && st.Ctime <= st.Mtime
}

// stay has the content of n, which is as st says, stay as it is, and so what tells of it.
func (n *Node) stay(st *hostfs.Stat) {
	r := *n.Object
	r.Meta.Size, r.Meta.Mtime = st.Size, st.Mtime
	n.Object = &r
}

// KeepContent has the content of n, which is as st says, stay as it is, whatever was captured.
func (l *Layer) KeepContent(n *Node, st *hostfs.Stat) {
	n.Lost, n.Content = true, false
	n.Compare(st)
}

// Compare notes whether the metadata of n, which is as st says, must be put right.
func (n *Node) Compare(st *hostfs.Stat) {
	if n.Lost {
		n.stay(st)
	}
	m := &n.Meta
	n.Several = n.Several || !st.IsDir() && (st.Nlink > 1 || !n.Created && m.Nlink > 1)
	n.Dirty = !n.Created && (n.Content || n.Xattrs || st.Mode&0o7777 != m.Mode&0o7777 ||
		st.UID != m.UID || st.GID != m.GID || st.Mtime != m.Mtime)
}

// OpenOwn opens the directory that holds the blob of n, O_PATH. The caller closes it.
func (l *Layer) OpenOwn(n *Node) (int, error) {
	if l.Own < 0 {
		return -1, fmt.Errorf("open blobs: %w", posix.ENOENT)
	}
	return hostfs.OpenDirPathAt(l.Own, store.ShardName(n.Obj))
}

// InPack tells whether obj is packed.
func (l *Layer) InPack(obj format.ObjID) bool { return l.Pack != nil && l.Pack.Has(obj) }

// UnpackFile writes the content of a packed file to the new file fd.
func (l *Layer) UnpackFile(n *store.PackNode, fd int) error {
	if last := len(n.Segments) - 1; last < 0 || n.Segments[last].Off+n.Segments[last].Len < n.Meta.Size {
		if err := hostfs.TruncateFD(fd, n.Meta.Size); err != nil {
			return err
		}
	}
	err := l.Pack.Content(n, func(off int64, b []byte) error { return hostfs.PwriteFull(fd, b, off) })
	if err != nil {
		return fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	return nil
}

// PutContent writes what was captured of n, and its size.
func (l *Layer) PutContent(n *Node, fd int) error {
	if l.Bad[n.Obj] {
		return nil
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if st.Size != n.Meta.Size {
		if err := hostfs.TruncateFD(fd, n.Meta.Size); err != nil {
			return err
		}
	}
	for i := range l.Rec.Contents[n.Obj] {
		c := &l.Rec.Contents[n.Obj][i]
		if c.Off+c.Len > n.Meta.Size {
			return fmt.Errorf("%w: content beyond the end of object %d", format.ErrDamaged, n.Obj)
		}
		if c.Enc == format.EncHole && c.Off >= st.Size { // fresh from truncate: a hole already
			continue
		}
		if err := l.Dir.WriteContent(c, fd); err != nil {
			return err
		}
	}
	return nil
}

// HasContent tells whether the file behind fd, of which only the size is known to be right, has the bytes that
// were captured of n.
func (l *Layer) HasContent(n *Node, fd int) (bool, error) {
	for i := range l.Rec.Contents[n.Obj] {
		same, err := l.Dir.SameContent(&l.Rec.Contents[n.Obj][i], fd)
		if !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// PathAtStart is the path that name in the directory d had when the step began, as far as it is recorded.
func (l *Layer) PathAtStart(d *Node, name string) string {
	for range 10_000 {
		if d == nil || d.Obj == format.RootObj || d.Name == "" {
			break
		}
		name = d.Name + "/" + name
		d = l.Nodes[d.Parent]
	}
	return name
}
