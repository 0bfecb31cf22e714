package undolog

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
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
	return e.t.putContent(n, fd)
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
		if n.isDir() && n.place.kind != nowhere && !n.seen && n.Obj != journal.RootObj {
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
		return setMeta(d.fd, &n.Meta, xattrs, n.xattrs)
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
	return setMeta(fd, &n.Meta, xattrs, n.xattrs)
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
	if d.Obj == journal.RootObj {
		return e.root.ID()
	}
	return d.ID
}
