package fuse

import (
	"bytes"
	"errors"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// settable says whether the workload may set or remove an attribute: its own
// and access lists. Everything in security and trusted would speak to the host
// with the starter's voice.
func settable(attr string) error {
	switch {
	case strings.HasPrefix(attr, "user."),
		attr == "system.posix_acl_access", attr == "system.posix_acl_default":
		return nil
	case strings.HasPrefix(attr, "security."), strings.HasPrefix(attr, "trusted."):
		return syscall.EPERM
	}
	return syscall.EOPNOTSUPP
}

// readable says whether the workload may see an attribute. The kernel asks for
// security.capability before the first write to each file; a nosuid mount has
// no use for it, and the host drops it at a write by itself.
func readable(attr string) bool {
	return strings.HasPrefix(attr, "user.") || strings.HasPrefix(attr, "system.posix_acl_")
}

// GetXAttr answers GETXATTR.
func (t *Tree) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	code := t.begin(OpGetxattr)
	defer t.end()
	if !code.Ok() {
		return 0, code
	}
	n := t.node(header.NodeId)
	switch {
	case n == nil:
		return 0, errnoStatus(syscall.ESTALE)
	case !readable(attr):
		return 0, fuse.ENODATA
	}
	size := 0
	err := n.xattr(
		func(dirfd int, name string) (err error) {
			size, err = hostfs.GetXattrAt(dirfd, name, attr, dest)
			return err
		},
		func(fd int) (err error) { size, err = hostfs.GetXattrFD(fd, attr, dest); return err })
	return uint32(size), status(err)
}

// ListXAttr answers LISTXATTR with the attributes that the workload may see.
func (t *Tree) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	code := t.begin(OpListxattr)
	defer t.end()
	if !code.Ok() {
		return 0, code
	}
	n := t.node(header.NodeId)
	if n == nil {
		return 0, errnoStatus(syscall.ESTALE)
	}
	var names []byte
	list := func(read func(buf []byte) (int, error)) error {
		for size := 1024; ; size *= 8 {
			buf := make([]byte, size)
			k, err := read(buf)
			if errors.Is(err, syscall.ERANGE) && size < hostfs.XattrMax {
				continue
			}
			names = buf[:max(k, 0)]
			return err
		}
	}
	err := n.xattr(
		func(dirfd int, name string) error {
			return list(func(b []byte) (int, error) { return hostfs.ListXattrAt(dirfd, name, b) })
		},
		func(fd int) error {
			return list(func(b []byte) (int, error) { return hostfs.ListXattrFD(fd, b) })
		})
	if err != nil {
		return 0, status(err)
	}
	names = visible(names)
	if len(dest) < len(names) {
		return uint32(len(names)), fuse.ERANGE
	}
	copy(dest, names)
	return uint32(len(names)), fuse.OK
}

// visible keeps the readable ones of NUL-terminated names.
func visible(names []byte) []byte {
	out := names[:0]
	for len(names) > 0 {
		end := bytes.IndexByte(names, 0) + 1
		if end == 0 {
			break
		}
		if readable(string(names[:end-1])) {
			out = append(out, names[:end]...)
		}
		names = names[end:]
	}
	return out
}

// SetXAttr answers SETXATTR.
func (t *Tree) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	code := t.begin(OpSetxattr)
	defer t.end()
	if !code.Ok() {
		return code
	}
	if len(data) > hostfs.XattrMax || in.Flags&^(unix.XATTR_CREATE|unix.XATTR_REPLACE) != 0 {
		return fuse.EINVAL
	}
	return status(t.changeXattr(fsbridge.OpSetXattr, cancel, &in.InHeader, attr,
		func(dirfd int, name string) error {
			return hostfs.SetXattrAt(dirfd, name, attr, data, int(in.Flags))
		},
		func(fd int) error { return hostfs.SetXattrFD(fd, attr, data, int(in.Flags)) }))
}

// RemoveXAttr answers REMOVEXATTR.
func (t *Tree) RemoveXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string) fuse.Status {
	code := t.begin(OpRemovexattr)
	defer t.end()
	if !code.Ok() {
		return code
	}
	return status(t.changeXattr(fsbridge.OpRemoveXattr, cancel, header, attr,
		func(dirfd int, name string) error { return hostfs.RemoveXattrAt(dirfd, name, attr) },
		func(fd int) error { return hostfs.RemoveXattrFD(fd, attr) }))
}

func (t *Tree) changeXattr(kind fsbridge.Kind, cancel <-chan struct{}, header *fuse.InHeader, attr string,
	byName func(dirfd int, name string) error, byFD func(fd int) error) error {
	n := t.node(header.NodeId)
	if n == nil {
		return syscall.ESTALE
	}
	if err := errors.Join(t.writable(), settable(attr), t.symlinkAllowed(n.obj.Type)); err != nil {
		return err
	}
	if t.opts.Posix != nil && !strings.HasPrefix(attr, "user.") {
		return syscall.EOPNOTSUPP // modes are not the host's
	}
	m := t.mutate(kind, cancel, header)
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

// xattr runs byFD on a descriptor of the node, or byName for a symlink, which
// the calls for descriptors do not take.
func (n *node) xattr(byName func(dirfd int, name string) error, byFD func(fd int) error) error {
	b := n.names.Load()
	if !n.isSymlink() || b == nil {
		return n.withFD(byFD)
	}
	d, err := n.tree.dirs.acquire(b.parent)
	if err != nil {
		return err
	}
	defer n.tree.dirs.release(d)
	return byName(d.fd, b.name)
}
