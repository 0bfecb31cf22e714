package apply

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// OtherObj stands in "made" for what is inside an adopted directory and so has
// no object number.
const OtherObj format.ObjID = format.MaxObjects

// unpackInside makes everything that was in the packed directory node i, which
// is open as dirfd now, and adds the numbers that it got to made.
func (e *Engine) unpackInside(i int, dirfd int, made *[]store.Made) error {
	for _, k := range e.t.Pack.Inside(i) {
		if err := e.unpackNode(k, dirfd, made); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) unpackNode(k int, dirfd int, made *[]store.Made) error {
	p := e.t.Pack.At(k)
	if p.Link >= 0 {
		return e.linkUnpacked(p, dirfd)
	}
	n := &layer.Node{Object: &format.Object{Name: p.Name, ID: p.ID, Meta: p.Meta}, Type: p.Meta.Mode & posix.S_IFMT}
	fd, err := hostfs.MakeAt(dirfd, p.Name, n.Type|0o600, p.Meta.Target, func(fd int) error {
		if err := layer.Bare(fd, n.Type, p.Xattrs); err != nil {
			return err
		}
		if n.IsDir() {
			return e.unpackInside(k, fd, made)
		}
		return e.t.UnpackFile(p, fd)
	})
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if err := layer.OwnerAside(layer.SetMetaFrom(fd, &st, &n.Meta, p.Xattrs, len(p.Xattrs) > 0)); err != nil {
		return err
	}
	*made = append(*made, store.Made{Obj: OtherObj, Old: p.ID, New: st.ID})
	return nil
}

// linkUnpacked makes another name of a file of the same packed tree, which was
// made before: it is found from the tree's root downwards.
func (e *Engine) linkUnpacked(p *store.PackNode, dirfd int) error {
	var names []string
	at := p.Link
	for ; at >= 0 && e.t.Pack.At(at).Parent >= 0; at = e.t.Pack.At(at).Parent {
		names = append(names, e.t.Pack.At(at).Name)
	}
	root := e.t.Pack.At(at).Obj
	x, err := openHoldRoot(e.hold, root)
	if err != nil {
		return err
	}
	for i := len(names) - 1; i > 0; i-- {
		next, err := hostfs.OpenDirPathAt(x, names[i])
		_ = hostfs.Close(x)
		if err != nil {
			return err
		}
		x = next
	}
	defer hostfs.Close(x)
	return hostfs.LinkAt(x, names[0], dirfd, p.Name)
}

// openHoldRoot opens the directory that is being made in the hold for obj.
func openHoldRoot(hold int, obj format.ObjID) (int, error) {
	b, err := hostfs.OpenDirPathAt(hold, store.ShardName(obj))
	if err != nil {
		return -1, err
	}
	defer hostfs.Close(b)
	return hostfs.OpenDirPathAt(b, madeName(obj))
}
