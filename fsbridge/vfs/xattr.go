package vfs

import (
	"errors"
	"strings"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// GetXattr returns the size of an extended attribute's value, and the value in dest if
// that has room for it (ERANGE if it has too little).
func (t *Tree) GetXattr(node uint64, attr string, dest []byte) (int, error) {
	if err := t.begin(OpGetxattr); err != nil {
		return 0, err
	}
	defer t.end()
	n := t.node(node)
	switch {
	case n == nil:
		return 0, posix.ESTALE
	case !fsbridge.Readable(attr):
		return 0, posix.ENODATA
	case isACL(attr) && t.opts.Posix != nil:
		return 0, posix.ENODATA // it is about the host's modes
	case isACL(attr) && t.opts.Owner != nil:
		list, err := t.shownACL(n, attr)
		if err == nil && len(dest) > 0 && len(dest) < len(list) {
			err = posix.ERANGE
		}
		copy(dest, list)
		return len(list), err
	}
	return n.getXattr(attr, dest)
}

// ListXattr returns how long the list of the attributes is that the workload may see,
// NUL after each, and the list in dest, or ERANGE.
func (t *Tree) ListXattr(node uint64, dest []byte) (int, error) {
	if err := t.begin(OpListxattr); err != nil {
		return 0, err
	}
	defer t.end()
	n := t.node(node)
	if n == nil {
		return 0, posix.ESTALE
	}
	var names []byte
	err := n.xattr(
		func(dirfd int, name string) (err error) { names, err = hostfs.XattrNamesAt(dirfd, name); return err },
		func(fd int) (err error) { names, err = hostfs.XattrNamesFD(fd); return err })
	if err != nil {
		return 0, err
	}
	names = fsbridge.Visible(names)
	if len(dest) < len(names) {
		return len(names), posix.ERANGE
	}
	return copy(dest, names), nil
}

// SetXattr sets an extended attribute; flags are XATTR_CREATE or XATTR_REPLACE.
func (t *Tree) SetXattr(r Request, node uint64, attr string, data []byte, flags uint32) error {
	if err := t.begin(OpSetxattr); err != nil {
		return err
	}
	defer t.end()
	if len(data) > hostfs.XattrMax || flags&^(posix.XATTR_CREATE|posix.XATTR_REPLACE) != 0 {
		return posix.EINVAL
	}
	if isACL(attr) && t.opts.Owner != nil {
		var err error
		if data, err = t.storedACL(node, attr, data); err != nil {
			return err
		}
	}
	return t.changeXattr(fsbridge.OpSetXattr, r, node, attr,
		func(dirfd int, name string) error { return hostfs.SetXattrAt(dirfd, name, attr, data, int(flags)) },
		func(fd int) error { return hostfs.SetXattrFD(fd, attr, data, int(flags)) })
}

// RemoveXattr removes an extended attribute.
func (t *Tree) RemoveXattr(r Request, node uint64, attr string) error {
	if err := t.begin(OpRemovexattr); err != nil {
		return err
	}
	defer t.end()
	return t.changeXattr(fsbridge.OpRemoveXattr, r, node, attr,
		func(dirfd int, name string) error { return hostfs.RemoveXattrAt(dirfd, name, attr) },
		func(fd int) error { return hostfs.RemoveXattrFD(fd, attr) })
}

func (t *Tree) changeXattr(kind fsbridge.Kind, r Request, node uint64, attr string,
	byName func(dirfd int, name string) error, byFD func(fd int) error) error {
	n := t.node(node)
	if n == nil {
		return posix.ESTALE
	}
	if err := errors.Join(t.writable(), fsbridge.Settable(attr), t.symlinkAllowed(n.obj.Type)); err != nil {
		return err
	}
	if t.opts.Posix != nil && !strings.HasPrefix(attr, "user.") {
		return posix.EOPNOTSUPP // modes are not the host's
	}
	if attr == hostfs.AccessACL && n.isRegular() {
		st, err := n.stat()
		if err = errors.Join(err, t.disarmFirst(r, n, &st)); err != nil {
			return err
		}
	}
	m := t.mutate(kind, r)
	defer m.done()
	m.op.Node, m.op.Attr = &n.obj, attr
	if err := m.pinNode(n); err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return err
	}
	before, known := n.stat()
	err := n.xattr(byName, byFD)
	if err == nil && known == nil {
		n.aged(&before)
	}
	m.end(nil, err)
	return err
}

// getXattr is [Tree.GetXattr] as the host has it.
func (n *node) getXattr(attr string, dest []byte) (size int, err error) {
	err = n.xattr(
		func(dirfd int, name string) (err error) {
			size, err = hostfs.GetXattrAt(dirfd, name, attr, dest)
			return err
		},
		func(fd int) (err error) { size, err = hostfs.GetXattrFD(fd, attr, dest); return err })
	return size, err
}

// xattr runs byFD on a descriptor of the node, or byName for a symlink, which
// the calls for descriptors do not take.
func (n *node) xattr(byName func(dirfd int, name string) error, byFD func(fd int) error) error {
	b := n.names.Load()
	if !n.isSymlink() || b == nil {
		return n.withFD(byFD)
	}
	d, err := n.tree.dirs.acquire(b.Parent)
	if err != nil {
		return err
	}
	defer n.tree.dirs.Release(d)
	return byName(d.FD, b.Name)
}
