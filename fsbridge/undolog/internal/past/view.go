package past

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// errNotKept: a step changed the file, and what it was would have been too much to keep.
var errNotKept = fmt.Errorf("%w: the content of the file was too much to be kept", format.ErrDamaged)

// thing is one file or directory, now or at some time before: what all the
// layers of a [View] agree to be the same object.
type thing struct {
	typ uint32
	id  hostfs.ID
	source
	// What it is in the layer that knew it first, and in others: few things are in several.
	first known
	more  map[*viewLayer]*layer.Node
}

// known is an object in a layer.
type known struct {
	layer *viewLayer // nil: none
	node  *layer.Node
}

func newThing(typ uint32, id hostfs.ID) *thing { return &thing{typ: typ, id: id} }

// as is the object that t is in the layer l, or nil.
func (t *thing) as(l *viewLayer) *layer.Node {
	if t.first.layer == l {
		return t.first.node
	}
	return t.more[l]
}

// inSome tells whether a layer knows t.
func (t *thing) inSome() bool { return t.first.layer != nil }

// isIn notes that t is the object n in the layer l.
func (t *thing) isIn(l *viewLayer, n *layer.Node) {
	switch {
	case t.first.layer == nil || t.first.layer == l:
		t.first = known{l, n}
	case t.more == nil:
		t.more = map[*viewLayer]*layer.Node{l: n}
	default:
		t.more[l] = n
	}
}

// folder is where t is in the folder, or nil.
func (t *thing) folder() *inode {
	if s, ok := t.source.(*inode); ok && s.layer == nil {
		return s
	}
	return nil
}

// now tells whether t is in the folder.
func (t *thing) now() bool { return t.folder() != nil }

// open opens an inode.
func (t *thing) open(flags int) (int, error) {
	s, ok := t.source.(*inode)
	if !ok {
		return -1, posix.ENOENT
	}
	return s.open(flags)
}

// viewLayer is one closed step, seen as what was true before it.
type viewLayer struct {
	*layer.Layer
	things map[format.ObjID]*thing
	// What has a number now, and what had it before the step; nil: not asked for yet. The layer is complete then.
	numbers, numbered map[hostfs.ID]*thing
	twinAt            map[hostfs.ID]layer.Location // nil: not looked for yet
}

// View shows the folder as it was before its oldest layer, without
// changing anything: each layer overlays the newer ones, and the newest the
// actual state.
type View struct {
	// Edited, if it is not nil, tells whether what name in the directory dir is now, or with the zero dir the inode itself, was changed by somebody
	// else since the steps.
	Edited func(dir hostfs.ID, name string, st *hostfs.Stat) bool

	root   *hostfs.Root
	top    *thing
	layers []*viewLayer // newest first
	// actual are the inodes that were seen, in the folder or in blobs.
	actual map[hostfs.ID]*thing
	unpack map[packed]*thing
	packed map[packed]map[string]int // what is in directories of packs
	open   store.DirCache[dirKey]
	// lost are inodes that a layer knows only by their number.
	lost map[hostfs.ID]*thing
	// linked are directories with other names of what a layer knows; nil: not
	// looked for yet.
	linked map[hostfs.ID]bool
}

// New makes a view of the folder as it is now: push layers to go back. The root stays the
// caller's.
func New(root *hostfs.Root) *View {
	v := &View{root: root, unpack: map[packed]*thing{}, packed: map[packed]map[string]int{}, lost: map[hostfs.ID]*thing{}}
	v.top = newThing(posix.S_IFDIR, root.ID())
	v.top.source = &inode{v: v, self: v.top}
	v.actual = map[hostfs.ID]*thing{root.ID(): v.top}
	return v
}

// Close closes the layers and their step directories, and what the view has open.
func (v *View) Close() {
	v.open.Close()
	for _, l := range v.layers {
		l.Close()
		_ = l.Dir.Close()
	}
}

// present returns what is at name in the directory d now, or nil.
func (v *View) present(d *thing, name string) (*thing, error) {
	if !d.now() {
		return nil, nil
	}
	return d.child(name)
}

// withID returns the thing with the number id, of which l has the copy, if
// there is one in the folder or in a newer layer.
func (v *View) withID(l *viewLayer, copied, id hostfs.ID) *thing {
	for _, newer := range v.layers {
		if t := newer.withNumber(id); t != nil {
			return t
		}
	}
	if t := v.actual[id]; t != nil {
		return t
	}
	if l.twinAt == nil {
		l.twinAt, _ = l.FindTwins(v.root) // what cannot be read is not found
	}
	at, ok := l.twinAt[copied]
	if !ok {
		return nil
	}
	t := v.top
	for _, name := range strings.Split(at.Path, "/") {
		var err error
		if t, err = v.present(t, name); t == nil || err != nil {
			return nil
		}
	}
	return t
}

// withNumber returns the thing of the layer that has the number id, or nil.
func (l *viewLayer) withNumber(id hostfs.ID) *thing {
	if l.numbers == nil {
		l.numbers = make(map[hostfs.ID]*thing, len(l.things))
		for _, t := range l.things {
			l.numbers[t.id] = t
		}
	}
	return l.numbers[id]
}

// intern returns the thing that is at name in the directory d. In the folder it can
// also be another name of what is in blobs.
func (v *View) intern(d *inode, name string, st *hostfs.Stat) *thing {
	t := v.actual[st.ID]
	fresh := t == nil
	if fresh {
		if t = v.missed(st.ID, st.Type()); t == nil {
			t = newThing(st.Type(), st.ID)
		}
		v.actual[st.ID] = t
	}
	if fresh || d.layer == nil && !t.now() {
		t.source = &inode{v: v, self: t, layer: d.layer, dir: d.self, name: name}
	}
	return t
}

// own returns the thing that is the object n in the blobs of l. A copy of a
// file that has other names in the folder is that file, and what a newer layer
// wrote to by a handle was in these blobs then.
func (v *View) own(l *viewLayer, n *layer.Node) *thing {
	t := v.actual[n.ID]
	if t == nil {
		if t = v.missed(n.ID, n.Type); t != nil {
			t.source, v.actual[n.ID] = &inode{v: v, self: t, layer: l, node: n}, t
		}
	}
	if id, ok := l.Twins[n.ID]; ok && t == nil {
		t = v.withID(l, n.ID, id)
	}
	if t == nil {
		t = newThing(n.Type, n.ID)
		t.source, v.actual[n.ID] = &inode{v: v, self: t, layer: l, node: n}, t
	}
	return t
}

// lookup returns what was at name in d before the oldest layer.
func (v *View) lookup(d *thing, name string) (*thing, error) {
	for i := len(v.layers) - 1; i >= 0; i-- {
		l := v.layers[i]
		if n := d.as(l); n != nil {
			if b := l.Bind(n.Obj, name); b != nil {
				if b.Want == nil {
					return nil, nil
				}
				return l.things[b.Want.Obj], nil
			}
		}
	}
	return d.child(name)
}

// names lists the directory d as it was before the oldest layer.
func (v *View) names(d *thing) (map[string]bool, error) {
	now, err := d.names()
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(now))
	for _, name := range now {
		out[name] = true
	}
	for _, l := range v.layers { // newest first: the oldest has the last word
		n := d.as(l)
		if n == nil {
			continue
		}
		for i := range l.Binds[n.Obj] {
			b := &l.Binds[n.Obj][i]
			delete(out, b.Name)
			if b.Want != nil {
				out[b.Name] = true
			}
		}
	}
	return out, nil
}

// Push adds the next older step: it finds its objects in the view so far. Without an error the
// layer is the view's to close, with its step directory.
func (v *View) Push(of *layer.Layer) error {
	l := &viewLayer{Layer: of, things: map[format.ObjID]*thing{}}
	if l.Nodes[format.RootObj] == nil {
		v.layers = append(v.layers, l)
		return nil
	}
	if err := l.FindOwn(); err != nil {
		return err
	}
	for _, n := range l.Order {
		if n.Place.Kind == layer.InOwn {
			l.know(n, v.own(l, n))
		}
	}
	l.know(l.Nodes[format.RootObj], v.top)
	queue := append([]*layer.Node(nil), l.Order...)
	for done := map[format.ObjID]bool{}; len(queue) > 0; queue = queue[1:] {
		d := queue[0]
		th := l.things[d.Obj]
		if th == nil || done[d.Obj] || th.typ != posix.S_IFDIR {
			continue
		}
		done[d.Obj] = true
		found, err := v.pushDir(l, d, th)
		if err != nil {
			return err
		}
		queue = append(queue, found...)
	}
	if err := v.search(l); err != nil {
		return err
	}
	for _, n := range l.Order { // what is nowhere is made of the records
		if l.things[n.Obj] == nil && !n.Created {
			th := newThing(n.Type, n.ID)
			if th.source = (&recorded{l, n}); l.InPack(n.Obj) {
				th.source = &packed{v, l, l.Pack.Root(n.Obj)}
			}
			l.know(n, th)
			if n.RetainedSeq != 0 || l.Nameless(n) {
				v.lost[n.ID] = th
			}
		}
	}
	v.layers = append(v.layers, l)
	return nil
}

// missed returns the thing with the number id that newer layers know and did
// not find. It is found now.
func (v *View) missed(id hostfs.ID, typ uint32) *thing {
	t := v.lost[id]
	if t == nil || t.typ != typ {
		return nil
	}
	delete(v.lost, id)
	return t
}

func (l *viewLayer) know(n *layer.Node, t *thing) {
	if l.things[n.Obj] == nil {
		l.things[n.Obj] = t
		t.isIn(l, n)
		if n.Type == 0 {
			n.Type = t.typ
		}
	}
}

func (v *View) pushDir(l *viewLayer, d *layer.Node, th *thing) (found []*layer.Node, err error) {
	binds := l.Binds[d.Obj]
	for i := range binds {
		x, err := v.found(th, binds[i].Name)
		if err != nil {
			return nil, err
		}
		if x == nil {
			continue
		}
		if n := l.Find(x.id, x.typ, &binds[i]); n != nil && l.things[n.Obj] == nil {
			l.know(n, x)
			found = append(found, n)
		}
	}
	for _, c := range l.Children[d.Obj] {
		x, err := v.found(th, c.Name)
		if err != nil {
			return nil, err
		}
		if x != nil && (c.Type == 0 || c.Type == x.typ) && l.things[c.Obj] == nil {
			l.know(c, x)
			found = append(found, c)
		}
	}
	return found, nil
}

// found is lookup for what looks through a layer: what is in a directory that is closed to us is not found.
func (v *View) found(d *thing, name string) (*thing, error) {
	t, err := v.lookup(d, name)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return t, err
}

// damaged is the error of who wants the content of n, which somebody has changed in the log.
func damaged(n *layer.Node) error {
	return fmt.Errorf("%w: what the log has of %q is not what it kept", format.ErrDamaged, n.Name)
}

// unknown returns an error if what t held is not known: somebody has changed it since, and no layer has all of it.
// now is how t looks; nil: it is looked at.
func (v *View) unknown(t *thing, now *hostfs.Stat) error {
	s, ok := t.source.(*inode)
	if !ok || v.Edited == nil || t.typ != posix.S_IFREG {
		return nil
	}
	known := false
	for _, l := range v.layers {
		if n := t.as(l); n != nil && !n.Created {
			if known = true; n.Content && l.Rec.Complete(n.Obj) {
				return nil
			}
		}
	}
	if !known {
		return nil // it is what it is now
	}
	if now == nil {
		st, err := t.stat()
		if err != nil {
			return err
		}
		now = &st
	}
	dir, name := hostfs.ID{}, ""
	if s.layer == nil && s.dir != nil {
		dir, name = s.dir.id, s.name
	}
	if !v.Edited(dir, name, now) {
		return nil
	}
	return format.ErrEdited
}

// write writes the content that t had before the oldest layer to the new file out.
func (v *View) write(t *thing, out int) error {
	if err := t.content(out); err != nil {
		return err
	}
	return v.writePast(t, out)
}

// writePast puts over out what the layers captured of t, newest first.
func (v *View) writePast(t *thing, out int) error {
	if err := v.unknown(t, nil); err != nil {
		return err
	}
	for _, l := range v.layers {
		if n := t.as(l); n != nil && !n.Created {
			if n.Lost {
				return fmt.Errorf("%w: %q", errNotKept, n.Name)
			}
			if l.Bad[n.Obj] {
				return damaged(n)
			}
			if err := l.PutContent(n, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// unwritten tells whether no layer has anything to put over the content of t, which looks like now.
func (v *View) unwritten(t *thing, now *hostfs.Stat) bool {
	for _, l := range v.layers {
		if n := t.as(l); n != nil && !n.Created && (n.Content || n.Lost || l.Bad[n.Obj] || n.Meta.Size != now.Size) {
			return false
		}
	}
	return v.unknown(t, now) == nil
}

// meta returns the metadata of t before the oldest layer; xattrs counts if has.
// Attributes that no layer knows, or that its capture had no right to see, are those of now, and read only for a copy.
func (v *View) meta(t *thing, forCopy bool) (m format.Meta, xattrs []hostfs.Xattr, has bool, err error) {
	known := false
	for i := len(v.layers) - 1; i >= 0; i-- {
		l := v.layers[i]
		n := t.as(l)
		if n == nil || n.Created {
			continue
		}
		if !known {
			m, known = n.Meta, true
		}
		if n.Xattrs && !has {
			xattrs, has = l.Rec.Xattrs[n.Obj], true
		}
	}
	if !known {
		st, err := t.stat()
		if err != nil {
			return m, nil, false, err
		}
		m = format.MetaOf(&st, "")
		if st.IsSymlink() {
			if m.Target, err = t.symlink(); err != nil {
				return m, nil, false, err
			}
		}
	}
	if !forCopy {
		return m, xattrs, has, nil
	}
	now, err := t.xattrs()
	switch {
	case has: // of what cannot be read the records tell enough
		return m, layer.WithHeldBack(xattrs, now), true, nil
	case err != nil:
		return m, nil, false, err
	}
	return m, now, len(now) > 0, nil
}
