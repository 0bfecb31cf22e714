package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Where the undo directory is on another file system than the folder (or a
// part of it), nothing can be renamed between them and moving is copying: what
// leaves the folder and what comes back has another number, and a file with
// several names is there still when a copy of it is in the log.

// across is what an apply knows of inodes that it copied.
type across struct {
	copies   map[hostfs.ID]hostfs.ID // what left the folder, and its copy
	noted    map[hostfs.ID]bool      // copies that are complete and written down
	searched bool
	at       map[hostfs.ID]layer.Location // where the copy of an inode is of which more names may come
}

func parkName(id journal.ObjID) string { return ".undo-" + strconv.FormatUint(uint64(id), 10) }

// park moves n, which will be put elsewhere in the folder, into the root
// directory meanwhile, so that it stays what it is.
func (e *Engine) park(d *layer.Node, fd int, name string, n *layer.Node, st *hostfs.Stat) (parked bool, err error) {
	if n == nil || !n.Goes {
		return false, nil
	}
	err = e.move(d, fd, name, e.Root.FD(), parkName(n.Obj), st)
	for _, no := range []error{unix.EXDEV, unix.EEXIST, unix.EACCES, unix.EPERM} {
		if errors.Is(err, no) {
			return false, nil
		}
	}
	if err == nil {
		n.Place = layer.Place{Kind: layer.InPark}
	}
	return err == nil, err
}

// scanParked finds what an interrupted apply has parked.
func (e *Engine) scanParked() {
	if e.hold < 0 {
		return
	}
	entries, err := hostfs.ReadDirAt(e.Root.FD())
	if err != nil {
		return
	}
	for _, x := range entries {
		digits, ok := strings.CutPrefix(x.Name, ".undo-")
		id, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || parkName(journal.ObjID(id)) != x.Name {
			continue
		}
		n := e.t.Nodes[journal.ObjID(id)]
		if n == nil || n.Obj == journal.RootObj || n.Place.Kind != layer.Nowhere {
			continue
		}
		if st, err := hostfs.StatAt(e.Root.FD(), x.Name); err == nil && st.ID == n.ID {
			n.Compare(&st)
			e.found(n, layer.Place{Kind: layer.InPark}, st.Mode)
		}
	}
}

// moveByCopy moves the file or tree name below fd, which is the object id, out
// of the folder to x. Its number and those of all in it are written down when
// the copy is complete, and only then it is removed: what is killed before is
// done anew. What has other names in the folder is no edit from outside for having lost
// some. A spare copy goes to another name and is not told of.
func (e *Engine) moveByCopy(id journal.ObjID, fd int, name string, x entry, to string) error {
	c := newCopier(e, id, x.fd, "t"+to)
	if err := hostfs.RemoveAll(context.Background(), x.fd, c.to, nil); err != nil {
		return err
	}
	if err := c.tree(fd, name, x.fd, c.to, "", 0); err != nil {
		return err
	}
	if err := hostfs.RenameNew(x.fd, c.to, x.fd, to); err != nil {
		return err
	}
	if err := fault.Point("apply.copied"); err != nil {
		return err
	}
	if to == x.name {
		c.noteShared()
		if err := e.writeMade(c.records()); err != nil {
			return err
		}
		c.remember(e.hold, strconv.FormatUint(x.key.n, 10)+"/"+to)
		top := c.made[len(c.made)-1]
		e.across.copies[top.Old], e.across.noted[top.New] = top.New, true
		if n := e.t.Nodes[id]; n != nil && n.Goes {
			e.setMade(n, top.New)
			if top.Shared {
				e.t.Twins[top.New] = top.Old
			}
		}
	}
	err := fault.Point("apply.noted")
	if err == nil {
		err = store.RemoveTree(context.Background(), fd, name, e.Relink, nil)
	}
	e.dirs.dropNodes()
	return err
}

// noteLast writes down that the inode st, of which there is a copy, loses its
// last name.
func (e *Engine) noteLast(id journal.ObjID, st *hostfs.Stat, to hostfs.ID) error {
	if st.Nlink > 1 {
		return nil
	}
	return e.writeMade(store.AppendMade(nil, store.Made{Obj: id, Copied: true, Old: st.ID, New: to}))
}

// attachByCopy puts n, which is at from, into the directory d of the folder.
// The copy gets its name when it is complete and its number is written down.
func (e *Engine) attachByCopy(n, d *layer.Node, from entry, fd int, name string) error {
	c := newCopier(e, n.Obj, fd, fmt.Sprintf(".undo-new-%d", n.Obj))
	if err := hostfs.RemoveAll(context.Background(), fd, c.to, nil); err != nil {
		return err
	}
	err := c.tree(from.fd, from.name, fd, c.to, "", 0)
	if err == nil {
		err = e.writeMade(c.records())
	}
	if err == nil {
		err = hostfs.RenameNew(fd, c.to, fd, name)
	}
	if err != nil {
		return errors.Join(err, hostfs.RemoveAll(context.Background(), fd, c.to, nil))
	}
	c.remember(e.Root.FD(), path.Join(e.path(d), name))
	e.setMade(n, c.made[len(c.made)-1].New)
	n.Dirty = !n.Created
	err = hostfs.RemoveAll(context.Background(), from.fd, from.name, nil)
	e.dirs.dropNodes()
	return err
}

// twin finds where the inode is in the folder, or was put by this apply, that
// the inode id in blobs was another name of.
func (e *Engine) twin(id hostfs.ID) (layer.Location, bool) {
	a := &e.across
	if _, ok := e.t.Twins[id]; ok && !a.searched {
		a.searched = true
		found, err := e.t.FindTwins(e.Root)
		if err != nil {
			e.Warn("look for other names of a file: %v", err)
		}
		for c, at := range found {
			a.at[c] = at
		}
	}
	s, ok := a.at[id]
	return s, ok
}

// copier copies one object and all that is in it to another file system.
type copier struct {
	e     *Engine
	obj   journal.ObjID
	toFD  int
	to    string
	made  []store.Made // what is inside first, the object itself last
	names map[hostfs.ID]copiedName
	left  map[hostfs.ID]uint64 // names that were not seen, of files
}

type copiedName struct {
	rel string
	id  hostfs.ID
}

func newCopier(e *Engine, obj journal.ObjID, toFD int, to string) *copier {
	return &copier{e: e, obj: obj, toFD: toFD, to: to, names: map[hostfs.ID]copiedName{}, left: map[hostfs.ID]uint64{}}
}

// note tells of the copy id of st.
func (c *copier) note(st *hostfs.Stat, rel string, id hostfs.ID) {
	obj := OtherObj
	if rel == "" {
		obj = c.obj
	}
	c.made = append(c.made, store.Made{Obj: obj, Copied: true, Old: st.ID, New: id})
	if st.IsDir() || st.Nlink < 2 {
		return
	}
	if _, ok := c.names[st.ID]; !ok {
		c.names[st.ID], c.left[st.ID] = copiedName{rel, id}, st.Nlink
	}
	c.left[st.ID]--
}

// noteShared tells which of the originals have names that are not copied.
func (c *copier) noteShared() {
	for i := range c.made {
		c.made[i].Shared = c.left[c.made[i].Old] > 0
	}
}

func (c *copier) records() (buf []byte) {
	for _, m := range c.made {
		buf = store.AppendMade(buf, m)
	}
	return buf
}

// remember keeps where the files with several names are, now that the copy has
// its name.
func (c *copier) remember(base int, at string) {
	for id, n := range c.names {
		c.e.across.at[id] = layer.Location{Base: base, Path: path.Join(at, n.rel), ID: n.id}
	}
}

// link makes another name of the copy of st, if there is one already, or of
// the file that it is a copy of.
func (c *copier) link(st *hostfs.Stat, toFD int, to string) (id hostfs.ID, ok bool) {
	if n, ok := c.names[st.ID]; ok {
		if (layer.Location{Base: c.toFD, Path: path.Join(c.to, n.rel), ID: n.id}).Link(toFD, to) {
			return n.id, true
		}
	}
	if s, ok := c.e.twin(st.ID); ok && s.Link(toFD, to) {
		return s.ID, true
	}
	return id, false
}

// maxCopyDepth bounds how deep a copier goes: it holds two descriptors a level.
const maxCopyDepth = 400

// tree copies name below fd, with everything in it and all metadata, to the
// new name to below toFD, which is rel in the copy. It follows no symlink.
func (c *copier) tree(fd int, name string, toFD int, to, rel string, depth int) error {
	st, err := hostfs.StatAt(fd, name)
	if err != nil {
		return err
	}
	switch st.Type() {
	case unix.S_IFDIR:
		if depth > maxCopyDepth {
			return fmt.Errorf("copy %q: directories too deep: %w", name, syscall.ENAMETOOLONG)
		}
		err = c.dir(fd, name, toFD, to, rel, &st, depth)
	default:
		if id, ok := c.link(&st, toFD, to); ok {
			c.note(&st, rel, id)
			return nil
		}
		err = copyOne(fd, name, toFD, to, &st)
	}
	if err != nil {
		return err
	}
	xattrs, err := hostfs.AllXattrsAt(fd, name)
	if err != nil {
		return err
	}
	p, err := hostfs.OpenAt(toFD, to, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(p)
	now, err := hostfs.StatFD(p)
	if err != nil {
		return err
	}
	c.note(&st, rel, now.ID)
	m := journal.MetaOf(&st, "")
	return layer.SetMeta(p, &m, xattrs, len(xattrs) > 0)
}

// copyOne copies what is no directory.
func copyOne(fd int, name string, toFD int, to string, st *hostfs.Stat) error {
	switch st.Type() {
	case unix.S_IFREG:
		return copyFile(fd, name, toFD, to, st)
	case unix.S_IFLNK:
		target, err := hostfs.ReadlinkAt(fd, name)
		if err == nil {
			err = hostfs.SymlinkAt(target, toFD, to)
		}
		return err
	}
	return hostfs.MknodAt(toFD, to, st.Mode)
}
