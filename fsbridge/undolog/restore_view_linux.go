package undolog

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// thing is one file or directory, now or at some time before: what all the
// layers of a pastView agree to be the same object.
type thing struct {
	typ uint32
	id  hostfs.ID
	// now: it is in the folder at name in dir (dir is nil for the root).
	now  bool
	dir  *thing
	name string
	// Otherwise it is an object of layer home: in its blobs, or to be made of
	// its records. Without obj it is at name in dir, a directory in that
	// layer's blobs, or the node packed of its pack.
	home   *layer
	obj    *node
	packed int
	// as is its object in each layer that knows it.
	as map[*layer]*node
}

// layer is one closed step, seen as what was true before it.
type layer struct {
	e      *engine
	things map[objID]*thing
}

// pastView shows the folder as it was before its oldest layer, without
// changing anything: each layer overlays the newer ones, and the newest the
// actual state.
type pastView struct {
	root   *hostfs.Root
	top    *thing
	layers []*layer // newest first
	// actual are the inodes that were seen, in the folder or in blobs.
	actual map[hostfs.ID]*thing
	unpack map[packedAt]*thing
	// lost are inodes that a layer knows only by their number.
	lost map[hostfs.ID]*thing
	// linked are directories with other names of what a layer knows; nil: not
	// looked for yet.
	linked map[hostfs.ID]bool
}

// packedAt is one node of a layer's pack.
type packedAt struct {
	l *layer
	i int
}

func newPastView(root *hostfs.Root) *pastView {
	top := &thing{typ: unix.S_IFDIR, id: root.ID(), now: true, as: map[*layer]*node{}}
	return &pastView{root: root, top: top, actual: map[hostfs.ID]*thing{root.ID(): top}, unpack: map[packedAt]*thing{}, lost: map[hostfs.ID]*thing{}}
}

// open opens a thing that is in the folder now, or a directory in blobs.
func (v *pastView) open(t *thing, flags int) (fd int, err error) {
	if t.now {
		fd, err = v.root.OpenPath(v.path(t), flags)
	} else {
		var at entry
		var done func()
		if at, done, err = v.at(t); err == nil {
			fd, err = hostfs.OpenAt(at.fd, at.name, flags, 0)
			done()
		}
	}
	if err != nil {
		return -1, err
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && st.ID != t.id {
		err = hostfs.ErrChanged
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (v *pastView) path(t *thing) string {
	var parts []string
	for ; t.dir != nil; t = t.dir {
		parts = append([]string{t.name}, parts...)
	}
	return strings.Join(parts, "/")
}

// present returns what is at name in the directory d now, or nil.
func (v *pastView) present(d *thing, name string) (*thing, error) {
	if !d.now {
		return nil, nil
	}
	return v.inside(d, name)
}

// inside returns what is at name in the directory d, which is in the folder
// now or was adopted with all that was in it.
func (v *pastView) inside(d *thing, name string) (*thing, error) {
	if !d.now {
		if i, ok := d.node(); ok {
			return v.insidePack(d, i, name), nil
		}
		if !d.real() {
			return nil, nil
		}
	}
	fd, err := v.open(d, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatAt(fd, name)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.intern(d, name, &st), nil
}

func (v *pastView) insidePack(d *thing, dir int, name string) *thing {
	p := d.home.e.pack
	for _, i := range p.kids[dir] {
		n := &p.nodes[i]
		if n.Name != name {
			continue
		}
		if n.Link >= 0 {
			i, n = n.Link, &p.nodes[n.Link]
		}
		at := packedAt{d.home, i}
		if v.unpack[at] == nil {
			t := v.missed(n.ID, n.Meta.Mode&unix.S_IFMT)
			if t == nil {
				t = &thing{typ: n.Meta.Mode & unix.S_IFMT, id: n.ID, as: map[*layer]*node{}}
			}
			t.home, t.obj, t.packed = d.home, nil, i
			v.unpack[at] = t
		}
		return v.unpack[at]
	}
	return nil
}

// node returns which node of its home's pack t is, if it is one.
func (t *thing) node() (int, bool) {
	if t.now || t.home == nil || t.home.e.pack == nil {
		return 0, false
	}
	if t.obj == nil {
		return t.packed, t.dir == nil
	}
	if t.obj.place.kind == inOwn || !t.home.e.inPack(t.obj.Obj) {
		return 0, false
	}
	return t.home.e.pack.roots[t.obj.Obj], true
}

// real tells whether t is an inode, in the folder or in blobs.
func (t *thing) real() bool {
	return t.now || t.obj == nil && t.dir != nil || t.obj != nil && t.obj.place.kind == inOwn
}

// withID returns the thing with the number id, of which e has the copy, if
// there is one in the folder or in a newer layer.
func (v *pastView) withID(e *engine, copied, id hostfs.ID) *thing {
	for _, l := range v.layers {
		for _, t := range l.things {
			if t.id == id {
				return t
			}
		}
	}
	at, ok := e.twin(copied)
	if t := v.actual[id]; t != nil || !ok {
		return t
	}
	t := v.top
	for _, name := range strings.Split(at.path, "/") {
		var err error
		if t, err = v.present(t, name); t == nil || err != nil {
			return nil
		}
	}
	return t
}

// intern returns the thing that is at name in d. In the folder it can also be
// another name of what is in blobs.
func (v *pastView) intern(d *thing, name string, st *hostfs.Stat) *thing {
	t := v.actual[st.ID]
	if t == nil {
		if t = v.missed(st.ID, st.Type()); t == nil {
			t = &thing{typ: st.Type(), id: st.ID, as: map[*layer]*node{}}
		}
		t.now, t.home, t.dir, t.name, t.obj = d.now, d.home, d, name, nil
		v.actual[st.ID] = t
	}
	if d.now && !t.now {
		t.now, t.dir, t.name = true, d, name
	}
	return t
}

// own returns the thing that is the object n in the blobs of l. A copy of a
// file that has other names in the folder is that file, and what a newer layer
// wrote to by a handle was in these blobs then.
func (v *pastView) own(l *layer, n *node) *thing {
	t := v.actual[n.ID]
	if t == nil {
		if t = v.missed(n.ID, n.typ); t != nil {
			t.home, t.obj, v.actual[n.ID] = l, n, t
		}
	}
	if id, ok := l.e.across.twins[n.ID]; ok && t == nil {
		t = v.withID(l.e, n.ID, id)
	}
	if t == nil {
		t = &thing{typ: n.typ, id: n.ID, home: l, obj: n, as: map[*layer]*node{}}
		v.actual[n.ID] = t
	}
	return t
}

// lookup returns what was at name in d before the oldest layer.
func (v *pastView) lookup(d *thing, name string) (*thing, error) {
	for i := len(v.layers) - 1; i >= 0; i-- {
		l := v.layers[i]
		if n := d.as[l]; n != nil {
			if b := l.e.t.bind(n.Obj, name); b != nil {
				if b.want == nil {
					return nil, nil
				}
				return l.things[b.want.Obj], nil
			}
		}
	}
	return v.inside(d, name)
}

// names lists the directory d as it was before the oldest layer.
func (v *pastView) names(d *thing) (map[string]bool, error) {
	out := map[string]bool{}
	if i, ok := d.node(); ok {
		p := d.home.e.pack
		for _, k := range p.kids[i] {
			out[p.nodes[k].Name] = true
		}
	} else if d.real() {
		fd, err := v.open(d, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return nil, err
		}
		entries, err := hostfs.ReadDir(fd)
		_ = hostfs.Close(fd)
		if err != nil {
			return nil, err
		}
		for _, x := range entries {
			out[x.Name] = true
		}
	}
	for _, l := range v.layers { // newest first: the oldest has the last word
		n := d.as[l]
		if n == nil {
			continue
		}
		for i := range l.e.t.binds[n.Obj] {
			b := &l.e.t.binds[n.Obj][i]
			delete(out, b.name)
			if b.want != nil {
				out[b.name] = true
			}
		}
	}
	return out, nil
}

// push adds the next older step: it finds its objects in the view so far.
func (v *pastView) push(e *engine) error {
	t := e.t
	l := &layer{e: e, things: map[objID]*thing{}}
	if t.nodes[rootObj] == nil {
		v.layers = append(v.layers, l)
		return nil
	}
	if err := e.scanBlobs(e.ahead.scan, inOwn); err != nil {
		return err
	}
	e.queue = nil
	for _, n := range t.order {
		if n.place.kind == inOwn {
			l.know(n, v.own(l, n))
		}
	}
	l.know(t.nodes[rootObj], v.top)
	queue := append([]*node(nil), t.order...)
	for done := map[objID]bool{}; len(queue) > 0; queue = queue[1:] {
		d := queue[0]
		th := l.things[d.Obj]
		if th == nil || done[d.Obj] || th.typ != unix.S_IFDIR {
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
	for _, n := range t.order { // what is nowhere is made of the records
		if l.things[n.Obj] == nil && !n.Created {
			th := &thing{typ: n.typ, id: n.ID, home: l, obj: n, as: map[*layer]*node{}}
			l.know(n, th)
			if n.RetainedSeq != 0 || t.nameless(n) {
				v.lost[n.ID] = th
			}
		}
	}
	v.layers = append(v.layers, l)
	return nil
}

// missed returns the thing with the number id that newer layers know and did
// not find. It is found now.
func (v *pastView) missed(id hostfs.ID, typ uint32) *thing {
	t := v.lost[id]
	if t == nil || t.typ != typ {
		return nil
	}
	delete(v.lost, id)
	return t
}

func (l *layer) know(n *node, t *thing) {
	if l.things[n.Obj] == nil {
		l.things[n.Obj] = t
		t.as[l] = n
		if n.typ == 0 {
			n.typ = t.typ
		}
	}
}

func (v *pastView) pushDir(l *layer, d *node, th *thing) (found []*node, err error) {
	t := l.e.t
	binds := t.binds[d.Obj]
	for i := range binds {
		x, err := v.lookup(th, binds[i].name)
		if err != nil {
			return nil, err
		}
		if x == nil {
			continue
		}
		if n := t.find(x.id, x.typ, &binds[i]); n != nil && l.things[n.Obj] == nil {
			l.know(n, x)
			found = append(found, n)
		}
	}
	for _, c := range t.children[d.Obj] {
		x, err := v.lookup(th, c.Name)
		if err != nil {
			return nil, err
		}
		if x != nil && (c.typ == 0 || c.typ == x.typ) && l.things[c.Obj] == nil {
			l.know(c, x)
			found = append(found, c)
		}
	}
	return found, nil
}

// at returns where t, which is real, is; the root has no name.
func (v *pastView) at(t *thing) (entry, func(), error) {
	if !t.now && t.obj != nil {
		x, err := t.home.e.at(t.obj)
		return x, func() { t.home.e.done(x) }, err
	}
	dir := t
	if t.dir != nil {
		dir = t.dir
	}
	fd, err := v.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return entry{}, nil, err
	}
	x := entry{fd: fd}
	if t.dir != nil {
		x.name = t.name
	}
	return x, func() { _ = hostfs.Close(fd) }, nil
}

// writeBase writes the content that t has now, or as its home made it.
func (v *pastView) writeBase(t *thing, out int) error {
	if i, ok := t.node(); ok {
		return t.home.e.unpackFile(&t.home.e.pack.nodes[i], out)
	}
	if !t.real() {
		if !t.home.e.t.makeable(t.obj, t.home.e.inPack) {
			return fmt.Errorf("%w: the content of %q was not kept", ErrDamaged, t.obj.Name)
		}
		return nil // the layer's records hold all of it
	}
	at, done, err := v.at(t)
	if err != nil {
		return err
	}
	defer done()
	in, err := hostfs.OpenRegular(at.fd, at.name)
	if err != nil {
		return err
	}
	defer hostfs.Close(in)
	st, err := hostfs.StatFD(in)
	if err != nil {
		return err
	}
	return hostfs.CopyData(out, in, st.Size)
}

// writePast puts over it what the layers captured, newest first.
func (v *pastView) writePast(t *thing, out int) error {
	for _, l := range v.layers {
		if n := t.as[l]; n != nil && !n.Created {
			if err := l.e.putContent(n, out); err != nil {
				return err
			}
		}
	}
	return nil
}
