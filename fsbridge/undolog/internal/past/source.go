package past

import (
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// source is where a thing is now: an inode, a node of a pack, or nothing but records.
type source interface {
	stat() (hostfs.Stat, error)
	// symlink is where a symlink leads.
	symlink() (string, error)
	// xattrs fails with EACCES for a file in the folder that denies us reading.
	xattrs() ([]hostfs.Xattr, error)
	// content writes the content to the new file out.
	content(out int) error
	// names lists a directory.
	names() ([]string, error)
	// child is what has a name in a directory, spelled as the directory has it; nil: nothing.
	child(name string) (*thing, error)
	// adopted is the layer that keeps it as an object of its own, or nil.
	adopted() *viewLayer
}

// inode is an inode: in the folder, in a layer's blobs, or in a directory there.
type inode struct {
	v     *View
	self  *thing
	layer *viewLayer  // nil: it is in the folder
	node  *layer.Node // whose blob it is; nil: it is name in dir
	dir   *thing      // nil, and no node: the root of the folder
	name  string
	// inside are the names in a directory that the log has; nil: not read. What a step removed from it, most often all, is asked for by name.
	inside map[string]bool
	exact  bool // case counts in it
}

// open opens it, if it is still what it was.
func (s *inode) open(flags int) (int, error) {
	base, path, err := s.from()
	if err != nil {
		return -1, err
	}
	fd, err := hostfs.OpenBeneath(base, path, flags)
	if err != nil {
		return -1, err
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && st.ID != s.self.id {
		err = hostfs.ErrChanged
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, err
	}
	return fd, nil
}

// at calls f with the directory that it is in, and its name there. The root has no name:
// the descriptor is its own.
func (s *inode) at(f func(dir int, name string) error) error {
	var fd int
	var err error
	name := s.name
	switch {
	case s.node != nil:
		name = store.BlobName(s.node.Obj)
		fd, err = s.v.blobs(s)
	case s.dir != nil:
		fd, err = s.v.dir(s.dir)
	default:
		fd = s.v.root.FD()
	}
	if err != nil {
		return err
	}
	return f(fd, name)
}

func (s *inode) stat() (st hostfs.Stat, err error) {
	err = s.at(func(dir int, name string) (err error) {
		if name == "" {
			st, err = hostfs.StatFD(dir)
		} else {
			st, err = hostfs.StatAt(dir, name)
		}
		return err
	})
	return st, err
}

func (s *inode) symlink() (target string, err error) {
	err = s.at(func(dir int, name string) (err error) {
		target, err = hostfs.ReadlinkAt(dir, name)
		return err
	})
	return target, err
}

func (s *inode) xattrs() (list []hostfs.Xattr, err error) {
	if s.self.typ == posix.S_IFLNK {
		return nil, nil
	}
	err = s.at(func(dir int, name string) error {
		if name == "" {
			list, err = hostfs.AttributesFD(dir, s.self.typ, nil)
			return err
		}
		fd, err := hostfs.OpenAt(dir, name, posix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer hostfs.Close(fd)
		list, err = hostfs.AttributesFD(fd, s.self.typ, func() error {
			if s.layer == nil {
				return posix.EACCES
			}
			return nil
		})
		return err
	})
	return list, err
}

func (s *inode) content(out int) error {
	return s.regular(func(in int, st *hostfs.Stat) error { return hostfs.CopyData(out, in, st.Size) })
}

// read returns the content, if wanted says so of how the file looks.
func (s *inode) read(wanted func(st *hostfs.Stat) bool) (b []byte, read bool, err error) {
	err = s.regular(func(in int, st *hostfs.Stat) error {
		if read = wanted(st); !read {
			return nil
		}
		b = make([]byte, st.Size)
		n, err := hostfs.PreadFull(in, b, 0)
		b = b[:n]
		return err
	})
	return b, read, err
}

// regular calls f with the file, opened, and how it looks, unless the log's blob of it was changed.
func (s *inode) regular(f func(in int, st *hostfs.Stat) error) error {
	return s.at(func(dir int, name string) error {
		in, st, err := hostfs.OpenRegularStat(dir, name)
		if err != nil {
			return err
		}
		defer hostfs.Close(in)
		if s.node != nil && !s.changedLater() && s.layer.ChangedHere(s.node, &st) {
			return damaged(s.node)
		}
		return f(in, &st)
	})
}

// changedLater tells whether a step after that of the layer knows the blob, too: then it may have changed it.
func (s *inode) changedLater() bool {
	for _, l := range s.v.layers {
		if l == s.layer {
			break
		}
		if s.self.as(l) != nil {
			return true
		}
	}
	return false
}

func (s *inode) names() ([]string, error) {
	fd, err := s.open(posix.O_RDONLY | posix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	entries, err := hostfs.ReadDir(fd)
	names := make([]string, 0, len(entries))
	for _, x := range entries {
		names = append(names, x.Name)
	}
	return names, err
}

func (s *inode) child(name string) (*thing, error) {
	if s.node != nil && !s.holds(name) {
		return nil, nil
	}
	fd, err := s.v.dir(s.self)
	if err != nil {
		return nil, err
	}
	st, err := hostfs.StatAt(fd, name)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !s.exact { // what changed its case has one name, and not the other
		disk, exact := hostfs.DiskName(fd, name, &st)
		if s.exact = exact; disk != name {
			return nil, nil
		}
	}
	return s.v.intern(s, name, &st), nil
}

// holds tells whether name can be in a directory that the log has.
func (s *inode) holds(name string) bool {
	if s.inside == nil {
		list, err := s.names()
		if err != nil {
			return true // it can be searched, perhaps
		}
		s.inside = make(map[string]bool, len(list))
		for _, n := range list {
			s.inside[n] = true
		}
	}
	return s.inside[name]
}

func (s *inode) adopted() *viewLayer {
	if s.node == nil {
		return nil
	}
	return s.layer
}

// packed is a node of a layer's pack.
type packed struct {
	v     *View
	layer *viewLayer
	i     int
}

func (s *packed) node() *store.PackNode { return s.layer.Pack.At(s.i) }

func (s *packed) stat() (hostfs.Stat, error) {
	n := s.node()
	m := &n.Meta
	return hostfs.Stat{ID: n.ID, Mode: m.Mode, Nlink: m.Nlink, UID: m.UID, GID: m.GID, Rdev: m.Rdev, Size: m.Size, Mtime: m.Mtime}, nil
}

func (s *packed) symlink() (string, error)        { return s.node().Meta.Target, nil }
func (s *packed) xattrs() ([]hostfs.Xattr, error) { return s.node().Xattrs, nil }
func (s *packed) content(out int) error           { return s.layer.UnpackFile(s.node(), out) }

func (s *packed) names() ([]string, error) {
	var names []string
	for _, k := range s.layer.Pack.Inside(s.i) {
		names = append(names, s.layer.Pack.At(k).Name)
	}
	return names, nil
}

func (s *packed) child(name string) (*thing, error) {
	p := s.layer.Pack
	of := packed{s.v, s.layer, s.i}
	names := s.v.packed[of]
	if names == nil {
		names = map[string]int{}
		for _, i := range p.Inside(s.i) {
			names[p.At(i).Name] = i
		}
		s.v.packed[of] = names
	}
	i, ok := names[name]
	if !ok {
		return nil, nil
	}
	n := p.At(i)
	if n.Link >= 0 {
		i, n = n.Link, p.At(n.Link)
	}
	at := packed{s.v, s.layer, i}
	t := s.v.unpack[at]
	if t == nil {
		typ := n.Meta.Mode & posix.S_IFMT
		if t = s.v.missed(n.ID, typ); t == nil {
			t = newThing(typ, n.ID)
		}
		t.source = &at
		s.v.unpack[at] = t
	}
	return t, nil
}

func (s *packed) adopted() *viewLayer {
	if s.node().Parent >= 0 {
		return nil
	}
	return s.layer
}

// recorded is an object of which only a layer's records are left.
type recorded struct {
	layer *viewLayer
	node  *layer.Node
}

func (s *recorded) stat() (hostfs.Stat, error)      { return hostfs.Stat{Mode: s.node.Type}, nil }
func (s *recorded) symlink() (string, error)        { return s.node.Meta.Target, nil }
func (s *recorded) xattrs() ([]hostfs.Xattr, error) { return nil, nil }
func (s *recorded) names() ([]string, error)        { return nil, nil }
func (s *recorded) child(string) (*thing, error)    { return nil, nil }
func (s *recorded) adopted() *viewLayer             { return s.layer }

// content writes nothing: the layer's records, which are put over it, hold all of it.
func (s *recorded) content(int) error {
	if !s.layer.Makeable(s.node) {
		return fmt.Errorf("%w: the content of %q was not kept", format.ErrDamaged, s.node.Name)
	}
	return nil
}
