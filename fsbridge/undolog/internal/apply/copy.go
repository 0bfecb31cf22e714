package apply

import (
	"errors"
	"path"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// copier copies one object and all that is in it to another file system.
type copier struct {
	e     *Engine
	obj   format.ObjID
	toFD  int
	to    string
	made  []store.Made // what is inside first, the object itself last
	names map[hostfs.ID]copiedName
	gone  []hostfs.Stat // with out: the files that it has copied
	// deepest is how many levels it copies.
	deepest int
	out     bool   // out of the folder
	early   bool   // nothing is changed in the folder yet
	from    string // then: the path of what is copied, below the folder's root
}

type copiedName struct {
	rel string
	id  hostfs.ID
}

func newCopier(e *Engine, obj format.ObjID, toFD int, to string) *copier {
	return &copier{e: e, obj: obj, toFD: toFD, to: to, names: map[hostfs.ID]copiedName{}, deepest: copyDepth()}
}

// note tells of the copy id of st.
func (c *copier) note(st *hostfs.Stat, rel string, id hostfs.ID) {
	obj := OtherObj
	if rel == "" {
		obj = c.obj
	}
	c.made = append(c.made, store.Made{Obj: obj, Copied: true, Old: st.ID, New: id})
	if st.IsDir() {
		return
	}
	if c.out {
		c.gone = append(c.gone, *st)
	}
	if _, ok := c.names[st.ID]; !ok && st.Nlink > 1 {
		c.names[st.ID] = copiedName{rel, id}
	}
}

// settle counts the names that are copied, when all is.
func (c *copier) settle() {
	for i := range c.gone {
		c.e.across.kept[c.gone[i].ID] = versionOf(&c.gone[i])
		c.e.across.oneLess(&c.gone[i])
	}
	c.gone = nil
}

func (c *copier) records() (buf []byte) {
	for _, m := range c.made {
		buf = store.AppendMade(buf, m, c.e.Volumes)
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

// errTooDeep is that of a tree that is deeper than a copier goes.
var errTooDeep = errors.New("directories in it lie too deep to be copied to the log's file system: allow more open files (ulimit -n), or remove it by hand")

// copyDepth is how deep a copier goes. It holds two descriptors a level, and takes at most two
// thirds of those that the process may have.
func copyDepth() int {
	const least, most = 100, 16_000 // levels
	open, ok := posix.OpenFiles()
	if !ok {
		return least
	}
	return int(min(max(open/3, least), most))
}

// tree copies name below fd, with everything in it and all metadata, to the
// new name to below toFD, which is rel in the copy. It follows no symlink.
func (c *copier) tree(fd int, name string, toFD int, to, rel string, depth int) error {
	st, err := hostfs.StatAt(fd, name)
	if err != nil {
		return err
	}
	xattrs, err := hostfs.AttributesAt(fd, name, st.Type())
	if err != nil {
		return err
	}
	switch st.Type() {
	case posix.S_IFDIR:
		if depth > c.deepest {
			return errTooDeep
		}
		err = c.dir(fd, name, toFD, to, rel, &st, xattrs, depth)
	default:
		if id, ok := c.link(&st, toFD, to); ok {
			c.note(&st, rel, id)
			return nil
		}
		err = c.one(fd, name, toFD, to, rel, &st, xattrs)
	}
	if err != nil {
		return err
	}
	p, err := hostfs.OpenAt(toFD, to, posix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(p)
	now, err := hostfs.StatFD(p)
	if err != nil {
		return err
	}
	c.note(&st, rel, now.ID)
	m := format.MetaOf(&st, "")
	return layer.OwnerAside(layer.SetMeta(p, &m, xattrs, len(xattrs) > 0)) // what comes back is compared later
}

// one copies what is no directory.
func (c *copier) one(fd int, name string, toFD int, to, rel string, st *hostfs.Stat, xattrs []hostfs.Xattr) error {
	switch st.Type() {
	case posix.S_IFREG:
		return c.file(fd, name, toFD, to, rel, st, xattrs)
	case posix.S_IFLNK:
		target, err := hostfs.ReadlinkAt(fd, name)
		if err == nil {
			err = hostfs.SymlinkAt(target, toFD, to)
		}
		return err
	}
	if err := hostfs.MknodAt(toFD, to, st.Mode); err != nil {
		return err
	}
	p, err := hostfs.OpenAt(toFD, to, posix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(p)
	return layer.Bare(p, st.Type(), xattrs)
}

func (c *copier) file(fd int, name string, toFD int, to, rel string, st *hostfs.Stat, xattrs []hostfs.Xattr) error {
	at := entry{fd: fd, name: name}
	open := func() (int, error) { return openForce(at, posix.O_RDONLY, st) }
	if c.early {
		open = func() (int, error) { return c.e.openLent(c.where(rel), at, st) }
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer hostfs.Close(in)
	out, err := hostfs.OpenAt(toFD, to, posix.O_WRONLY|posix.O_CREAT|posix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer hostfs.Close(out)
	if err := layer.Bare(out, st.Type(), xattrs); err != nil {
		return err
	}
	return hostfs.CopyData(out, in, st.Size)
}

func (c *copier) dir(fd int, name string, toFD int, to, rel string, st *hostfs.Stat, xattrs []hostfs.Xattr, depth int) error {
	if err := hostfs.MkdirAt(toFD, to, 0o700); err != nil {
		return err
	}
	in, done, err := c.open(fd, name, rel, st)
	if err != nil {
		return err
	}
	defer done()
	out, err := hostfs.OpenDirPathAt(toFD, to)
	if err != nil {
		return err
	}
	defer hostfs.Close(out)
	if err := layer.Bare(out, st.Type(), xattrs); err != nil {
		return err
	}
	entries, err := hostfs.ReadDir(in)
	if err != nil {
		return err
	}
	for _, x := range entries {
		if c.early && c.e.goesFirst(st, x.Name) {
			continue
		}
		if err := c.tree(in, x.Name, out, x.Name, path.Join(rel, x.Name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// open opens a directory that is copied. What is denied to its owner is given to them: until it
// is copied if nothing is changed yet, or else until it is removed.
func (c *copier) open(fd int, name, rel string, st *hostfs.Stat) (in int, done func(), err error) {
	closed := st.Mode&0o500 != 0o500 && posix.Geteuid() != 0
	if closed && !c.early {
		if err := hostfs.ChmodAt(fd, name, st.Mode|0o700); err != nil {
			return -1, nil, err
		}
	}
	give := func() {}
	if closed && c.early {
		p, err := hostfs.OpenVerified(fd, name, st.ID, posix.O_PATH|posix.O_DIRECTORY)
		if err != nil {
			return -1, nil, err
		}
		give = func() {
			if err := c.e.Lender.giveBack(p, st.Mode); err != nil {
				c.e.Warn("cannot restore the mode of a directory: %v", err)
			}
			_ = hostfs.Close(p)
		}
		if err := c.e.lendAt(c.where(rel), p, st, 0o700); err != nil {
			_ = hostfs.Close(p)
			return -1, nil, err
		}
	}
	if in, err = hostfs.OpenDirAt(fd, name); err != nil {
		give()
		return -1, nil, err
	}
	return in, func() { give(); _ = hostfs.Close(in) }, nil
}

func (c *copier) where(rel string) whereabouts {
	return whereabouts{path: []byte(path.Join(c.from, rel))}
}

// goesFirst tells whether what is name in the directory dir is taken from it before dir itself
// is moved away.
func (e *Engine) goesFirst(dir *hostfs.Stat, name string) bool {
	d := e.t.ByHost[dir.ID]
	if d == nil || d.Place.Kind != layer.InTree {
		return false
	}
	b := e.t.Bind(d.Obj, name)
	return b != nil && b.Wrong
}
