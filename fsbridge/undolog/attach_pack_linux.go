package undolog

import (
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/pack"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// otherObj stands in "made" for what is inside an adopted directory and so has
// no object number.
const otherObj journal.ObjID = journal.MaxObjects

// unpackInside makes everything that was in the packed directory node i, which
// is open as dirfd now, and adds the numbers that it got to made.
func (e *engine) unpackInside(i int, dirfd int, made *[]store.Made) error {
	for _, k := range e.t.pack.Inside(i) {
		if err := e.unpackNode(k, dirfd, made); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) unpackNode(k int, dirfd int, made *[]store.Made) error {
	p := e.t.pack.At(k)
	if p.Link >= 0 {
		return e.linkUnpacked(p, dirfd)
	}
	n := &node{Object: &journal.Object{Name: p.Name, ID: p.ID, Meta: p.Meta}, typ: p.Meta.Mode & unix.S_IFMT}
	fd, err := hostfs.MakeAt(dirfd, p.Name, n.typ|0o600, p.Meta.Target, func(fd int) error {
		if n.isDir() {
			return e.unpackInside(k, fd, made)
		}
		return e.t.unpackFile(p, fd)
	})
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if err := setMetaFrom(fd, &st, &n.Meta, p.Xattrs, len(p.Xattrs) > 0); err != nil {
		return err
	}
	*made = append(*made, store.Made{Obj: otherObj, Old: p.ID, New: st.ID})
	return nil
}

// linkUnpacked makes another name of a file of the same packed tree, which was
// made before: it is found from the tree's root downwards.
func (e *engine) linkUnpacked(p *pack.Node, dirfd int) error {
	var names []string
	at := p.Link
	for ; at >= 0 && e.t.pack.At(at).Parent >= 0; at = e.t.pack.At(at).Parent {
		names = append(names, e.t.pack.At(at).Name)
	}
	root := e.t.pack.At(at).Obj
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
func openHoldRoot(hold int, obj journal.ObjID) (int, error) {
	b, err := hostfs.OpenDirPathAt(hold, store.ShardName(obj))
	if err != nil {
		return -1, err
	}
	defer hostfs.Close(b)
	return hostfs.OpenDirPathAt(b, madeName(obj))
}
