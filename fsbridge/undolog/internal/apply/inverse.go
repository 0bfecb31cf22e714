package apply

import (
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// inverse writes, before anything is changed, what the plan is about to
// replace: the journal with which this apply can be undone.
type inverse struct {
	e       *Engine
	w       *format.Writer
	dir     *store.StepDir
	records format.Batch
	apart   bool // what leaves the folder is copied to another file system
}

// Create makes the directory of the inverse below dirfd.
func (e *Engine) Create(dirfd int) (err error) {
	if e.Inverse, err = hostfs.OpenSubdir(dirfd, "inverse", true); err != nil {
		return err
	}
	if e.hold, err = hostfs.OpenSubdir(e.Inverse, "blobs", true); err != nil {
		return err
	}
	e.made, err = hostfs.OpenOwn(e.Inverse, "made", posix.O_WRONLY|posix.O_CREAT|posix.O_APPEND)
	return err
}

// Reopen takes up what an interrupted apply has done so far, whose directory is behind roll.
// recorded: the inverse has a journal.
func (e *Engine) Reopen(roll int, recorded bool) (err error) {
	e.Begun = true
	if e.Inverse, err = hostfs.OpenDirAt(roll, "inverse"); err != nil {
		return err
	}
	if e.hold, err = hostfs.OpenDirPathAt(e.Inverse, "blobs"); err != nil {
		return err
	}
	made, err := store.ReadMade(e.Inverse, e.Volumes)
	if err != nil {
		return err
	}
	if e.made, err = hostfs.OpenOwn(e.Inverse, "made", posix.O_WRONLY|posix.O_CREAT); err != nil {
		return err
	}
	// A torn record would hide the ones that follow.
	if err := hostfs.TruncateFD(e.made, int64(len(made))*store.MadeSize); err != nil {
		return err
	}
	if _, err := posix.Seek(e.made, 0, posix.SEEK_END); err != nil {
		return err
	}
	if err := e.reopenKept(made); err != nil {
		return err
	}
	for _, m := range made {
		if n := e.t.Nodes[m.Obj]; n != nil && !n.Created && !m.Shared {
			e.setMade(n, m.New)
		}
	}
	if !recorded {
		return nil
	}
	rec, err := format.ReadJournal(e.Inverse)
	if err != nil {
		return err
	}
	for id, o := range rec.Live(e.Volumes).Objects {
		if e.t.Nodes[id] == nil {
			e.strangers[o.ID] = id
		}
		e.t.Next = max(e.t.Next, id+1)
	}
	return nil
}

// WriteInverse writes the journal into the inverse's directory.
func (e *Engine) WriteInverse(step format.Step, power bool) (err error) {
	dir := store.NewStepDir(e.Inverse)
	defer func() { // the descriptor is the engine's
		dir.FD = -1
		_ = dir.Close()
	}()
	w, err := format.CreateJournal(dir.FD, &step, power)
	if err != nil {
		return err
	}
	v := &inverse{e: e, w: w, dir: dir, apart: hostfs.Apart(e.Root.FD(), e.hold)}
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	if root := e.t.Nodes[format.RootObj]; root != nil {
		if err := v.object(root); err != nil {
			return err
		}
	}
	for _, n := range e.t.Order {
		if err := v.node(n); err != nil {
			return err
		}
	}
	for _, n := range e.t.Order {
		if err := v.bindings(n); err != nil {
			return err
		}
	}
	if err := v.flush(0); err != nil {
		return err
	}
	return w.Sync()
}

func (v *inverse) flush(limit int) error {
	if v.records.Len() <= limit {
		return nil
	}
	err := v.w.Append(&v.records)
	v.records.Reset()
	return err
}

// node records n if this apply will change it, or needs it to find another.
func (v *inverse) node(n *layer.Node) error {
	e := v.e
	wrong := false
	for i := range e.t.Binds[n.Obj] {
		wrong = wrong || e.t.Binds[n.Obj][i].Wrong
	}
	switch {
	case n.Place.Kind == layer.Nowhere:
		if n.Wanted && e.t.Makeable(n) {
			return v.created(n, hostfs.ID{})
		}
		return nil
	case n.Place.Kind == layer.InOwn && n.Occupies: // see occupant
	case n.Place.Kind == layer.InOwn && n.Shared && n.Dirty: // changes where it has another name
		return v.object(n)
	case n.Place.Kind == layer.InOwn:
		return v.created(n, n.ID)
	case wrong || n.Wanted || n.Dirty && !n.Created:
		return v.object(n)
	}
	return nil
}

// created records n as something that was not there.
func (v *inverse) created(n *layer.Node, id hostfs.ID) error {
	if n.Inverse {
		return nil
	}
	n.Inverse = true
	r := format.Object{Obj: n.Obj, ID: v.e.Volumes.Disk(id), Created: true}
	v.records.Object(&r)
	return v.flush(128 << 10)
}

// object records n as it is now, its directories first.
func (v *inverse) object(n *layer.Node) error {
	if n.Inverse {
		return nil
	}
	var chain []*layer.Node
	for c := n; !c.Inverse; c = v.e.t.Nodes[c.Place.Dir] {
		chain = append(chain, c)
		if c.Place.Kind != layer.InTree || c.Obj == format.RootObj {
			break
		}
		if len(chain) > len(v.e.t.Nodes) {
			return fmt.Errorf("%w: object %d is inside itself", format.ErrDamaged, n.Obj)
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if err := v.one(chain[i]); err != nil {
			return err
		}
	}
	return nil
}

func (v *inverse) one(n *layer.Node) error {
	e := v.e
	n.Inverse = true
	if n.Place.Kind == layer.InOwn && n.IsDir() {
		r := format.Object{Obj: n.Obj, ID: e.Volumes.Disk(n.ID), Created: true}
		v.records.Object(&r)
		return v.flush(128 << 10)
	}
	if n.Obj == format.RootObj {
		st, err := e.Root.Stat()
		if err != nil {
			return err
		}
		return v.record(n, entry{fd: -1}, &st)
	}
	at, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(at)
	st, err := hostfs.StatAt(at.fd, at.name)
	if err != nil {
		return err
	}
	return v.record(n, at, &st)
}

// record writes the object record of n with its attributes and contents as
// far as they will change.
func (v *inverse) record(n *layer.Node, at entry, st *hostfs.Stat) error {
	r := format.Object{Obj: n.Obj, ID: v.e.Volumes.Disk(st.ID), Meta: format.MetaOf(st, "")}
	switch n.Place.Kind {
	case layer.InTree:
		if n.Obj != format.RootObj {
			r.Parent, r.Name = n.Place.Dir, n.Place.Name
		}
	case layer.InOlder:
		r.RetainedSeq, r.RetainedObj = n.RetainedSeq, n.RetainedObj
	}
	if mode, ok := v.e.granted[n.Obj]; ok {
		r.Meta.Mode = mode
	}
	if st.IsSymlink() {
		target, err := hostfs.ReadlinkAt(at.fd, at.name)
		if err != nil {
			return err
		}
		r.Meta.Target = target
	}
	v.records.Object(&r)
	if err := v.recordAttributes(n, at, st.Type()); err != nil {
		return err
	}
	if st.IsRegular() && !n.Created && (n.Content || st.Size != n.Meta.Size) {
		if err := v.contents(n, at, st); err != nil {
			return err
		}
	}
	return v.flush(128 << 10)
}

// recordAttributes writes the attributes of n down, if they will change, or if n may be copied to the log's file system, which may
// not hold them.
func (v *inverse) recordAttributes(n *layer.Node, at entry, typ uint32) error {
	leaves := n.Place.Kind == layer.InTree && n.Obj != format.RootObj && v.apart
	if !n.Xattrs && !leaves {
		return nil
	}
	have, err := v.attributes(n, at, typ)
	if err != nil {
		return err
	}
	if n.Xattrs || len(have) > 0 {
		v.records.Xattrs(n.Obj, have)
	}
	return nil
}

func (v *inverse) attributes(n *layer.Node, at entry, typ uint32) ([]hostfs.Xattr, error) {
	if n.IsDir() {
		d, err := v.e.dir(n)
		if err != nil {
			return nil, err
		}
		defer v.e.done(d)
		return hostfs.AttributesFD(d.fd, typ, nil)
	}
	return hostfs.AttributesAt(at.fd, at.name, typ)
}

// contents records the bytes that will be overwritten or cut off.
func (v *inverse) contents(n *layer.Node, at entry, st *hostfs.Stat) error {
	fd, err := v.e.openToRead(n, at, st)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if err := v.flush(0); err != nil {
		return err
	}
	w := v.e.NewContent(v.w, v.dir, n.Obj)
	for i := range v.e.t.Rec.Contents[n.Obj] {
		c := &v.e.t.Rec.Contents[n.Obj][i]
		if c.Off == 0 && c.Len >= st.Size { // what all of it replaces may share its extents
			return w.Whole(fd, st.Size)
		}
		if end := min(c.Off+c.Len, st.Size); c.Off < end {
			if err := w.Data(fd, c.Off, end); err != nil {
				return err
			}
		}
	}
	if n.Meta.Size < st.Size {
		return w.Data(fd, n.Meta.Size, st.Size)
	}
	return nil
}

// bindings records the wrong bindings of d and what occupies them, which will
// be moved into this directory's blobs.
func (v *inverse) bindings(d *layer.Node) error {
	binds := v.e.t.Binds[d.Obj]
	for i := range binds {
		b := &binds[i]
		if !b.Wrong {
			continue
		}
		old, err := v.occupant(d, b)
		if err != nil {
			return err
		}
		v.records.Binding(d.Obj, b.Name, old)
		if old != format.NoObj {
			v.records.Retain(old)
		}
		if err := v.flush(128 << 10); err != nil {
			return err
		}
	}
	return nil
}

func (v *inverse) occupant(d *layer.Node, b *layer.Bind) (format.ObjID, error) {
	e := v.e
	if b.Occ.Ino == 0 {
		return format.NoObj, nil
	}
	n := b.OccNode
	if n != nil && n.Place.Kind != layer.InOwn {
		return n.Obj, v.object(n)
	}
	at, err := e.dir(d)
	if err != nil {
		return format.NoObj, err
	}
	defer e.done(at)
	at.name = b.Name
	st, err := hostfs.StatAt(at.fd, b.Name)
	if err != nil {
		return format.NoObj, err
	}
	if n == nil {
		id, ok := e.strangers[st.ID]
		if ok {
			return id, nil
		}
		id = e.t.Next
		e.t.Next++
		e.strangers[st.ID] = id
		n = &layer.Node{Object: &format.Object{Obj: id, Created: true}}
	}
	if n.Inverse {
		return n.Obj, nil
	}
	n.Inverse = true
	own := n.Place
	n.Place = layer.InDir(d.Obj, b.Name)
	err = v.record(n, at, &st)
	n.Place = own
	return n.Obj, err
}
