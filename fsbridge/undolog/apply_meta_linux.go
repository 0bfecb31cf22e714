package undolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// contentAll puts captured contents back into files that are there.
func (e *engine) contentAll(ctx context.Context) error {
	for _, n := range e.t.order {
		if n.place.kind == nowhere || n.fresh || n.Created || n.typ != unix.S_IFREG || !n.content && !n.dirty {
			continue
		}
		if err := e.contentOf(n); err != nil {
			return fmt.Errorf("restore content of %q: %w", e.path(n), err)
		}
	}
	return nil
}

func (e *engine) contentOf(n *node) error {
	at, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(at)
	st, err := hostfs.StatAt(at.fd, at.name)
	if err != nil {
		return err
	}
	if !n.content && st.Size == n.Meta.Size {
		return nil
	}
	if err := fault.Point("apply.content"); err != nil {
		return err
	}
	fd, err := openForce(at, unix.O_RDWR, &st)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	e.changedInode(n.ID)
	return e.putContent(n, fd)
}

// openForce opens a regular file of ours even where its mode forbids it. The
// metadata phase puts the mode right.
func openForce(at entry, flags int, want *hostfs.Stat) (int, error) {
	fd := -1
	_, _, err := hostfs.AllowAt(at.fd, at.name, 0o600, func() (err error) {
		fd, err = hostfs.OpenAt(at.fd, at.name, flags|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return -1, err
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && (st.ID != want.ID || !st.IsRegular()) {
		err = hostfs.ErrChanged
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, err
	}
	return fd, nil
}

// putContent writes what was captured of n, and its size.
func (e *engine) putContent(n *node, fd int) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if st.Size != n.Meta.Size {
		if err := hostfs.TruncateFD(fd, n.Meta.Size); err != nil {
			return err
		}
	}
	for i := range e.t.rec.Contents[n.Obj] {
		c := &e.t.rec.Contents[n.Obj][i]
		if c.Off+c.Len > n.Meta.Size {
			return fmt.Errorf("%w: content beyond the end of object %d", ErrDamaged, n.Obj)
		}
		if c.Enc == encHole && c.Off >= st.Size { // fresh from truncate: a hole already
			continue
		}
		if err := e.t.dir.writeContent(c, fd); err != nil {
			return err
		}
	}
	return nil
}

// metaAll puts owners, modes, attributes and times right: files, then
// directories, deepest first.
func (e *engine) metaAll(ctx context.Context) error {
	for _, n := range e.t.order {
		if n.several && n.place.kind != nowhere { // their number may be another
			e.changedInode(n.ID)
		}
		if n.isDir() || n.Created || n.fresh || !n.dirty || n.place.kind == nowhere {
			continue
		}
		if err := e.metaOf(n); err != nil {
			return fmt.Errorf("restore metadata of %q: %w", e.path(n), err)
		}
		e.changedInode(n.ID)
	}
	for _, n := range e.t.order { // directories that are not below the root
		if n.isDir() && n.place.kind != nowhere && !n.seen && n.Obj != rootObj {
			e.final = append(e.final, n)
		}
	}
	for i := len(e.final) - 1; i >= 0; i-- {
		n := e.final[i]
		e.changedInode(e.idOf(n)) // at least its mtime
		if _, granted := e.granted[n.Obj]; n.Created || n.right && !granted {
			continue
		}
		if err := e.metaOf(n); err != nil {
			return fmt.Errorf("restore metadata of %q: %w", e.path(n), err)
		}
		delete(e.granted, n.Obj)
	}
	e.ungrant()
	return nil
}

func (e *engine) metaOf(n *node) error {
	if err := fault.Point("apply.meta"); err != nil {
		return err
	}
	xattrs := e.t.rec.Xattrs[n.Obj]
	if n.isDir() {
		d, err := e.dir(n)
		if err != nil {
			return err
		}
		defer e.done(d)
		return e.setMeta(d.fd, n, xattrs, n.xattrs)
	}
	at, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(at)
	fd, err := hostfs.OpenAt(at.fd, at.name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return e.setMeta(fd, n, xattrs, n.xattrs)
}

// setMeta gives the inode behind fd (O_PATH) the recorded metadata of n. It
// may run on any goroutine.
func (e *engine) setMeta(fd int, n *node, xattrs []hostfs.Xattr, hasXattrs bool) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	return e.setMetaFrom(fd, &st, n, xattrs, hasXattrs)
}

// setMetaFrom is setMeta for an inode that is as st says.
func (e *engine) setMetaFrom(fd int, st *hostfs.Stat, n *node, xattrs []hostfs.Xattr, hasXattrs bool) error {
	m := &n.Meta
	unsure := hasXattrs // of the mode: an ACL changes it, and chown may clear bits
	if st.Mode&unix.S_IFMT != n.typ {
		return hostfs.ErrChanged
	}
	if st.UID != m.UID || st.GID != m.GID {
		if err := hostfs.ChownFD(fd, int(m.UID), int(m.GID)); err != nil && !errors.Is(err, syscall.EPERM) {
			return err
		}
		unsure = true
	}
	if hasXattrs {
		if err := e.setXattrs(fd, xattrs); err != nil {
			return err
		}
	}
	if n.typ != unix.S_IFLNK && (unsure || st.Mode&0o7777 != m.Mode&0o7777) {
		if err := hostfs.ChmodFD(fd, m.Mode&0o7777); err != nil {
			return err
		}
	}
	if st.Mtime != m.Mtime || hasXattrs {
		return hostfs.UtimesFD(fd, hostfs.TimeOmit, m.Mtime)
	}
	return nil
}

// setXattrs makes the attributes those and no others. Attributes that we may
// not change are left.
func (e *engine) setXattrs(fd int, want []hostfs.Xattr) error {
	have, err := hostfs.AllXattrsFD(fd)
	if err != nil {
		if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ELOOP) {
			return nil
		}
		return err
	}
	find := func(l []hostfs.Xattr, name string) *hostfs.Xattr {
		for i := range l {
			if l[i].Name == name {
				return &l[i]
			}
		}
		return nil
	}
	try := func(f func() error) error {
		_, _, err := hostfs.AllowFD(fd, 0o600, f) // user.* needs a writable file
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) {
			return nil
		}
		return err
	}
	for _, x := range have {
		if find(want, x.Name) == nil {
			if err := try(func() error { return hostfs.RemoveXattrFD(fd, x.Name) }); err != nil && !errors.Is(err, syscall.ENODATA) {
				return err
			}
		}
	}
	for _, x := range want {
		if h := find(have, x.Name); h == nil || !bytes.Equal(h.Value, x.Value) {
			if err := try(func() error { return hostfs.SetXattrFD(fd, x.Name, x.Value, 0) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxChanges bounds the list of changes; above it everything has changed.
const maxChanges = 4096

func (e *engine) changed(d *node, b *bind) {
	if len(e.changes) <= maxChanges {
		e.changes = append(e.changes, fsbridge.Change{Dir: e.idOf(d), Name: b.name})
	}
}

func (e *engine) changedInode(id hostfs.ID) {
	if len(e.changes) <= maxChanges {
		e.changes = append(e.changes, fsbridge.Change{ID: id})
	}
}

func (e *engine) idOf(d *node) hostfs.ID {
	if d.Obj == rootObj {
		return e.root.ID()
	}
	return d.ID
}
