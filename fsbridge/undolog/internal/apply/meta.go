package apply

import (
	"context"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// contentAll puts captured contents back into files that are there.
func (e *Engine) contentAll(ctx context.Context) error {
	for _, n := range e.t.Order {
		if n.Place.Kind == layer.Nowhere || n.Fresh || n.Created || n.Type != posix.S_IFREG || !n.Content && !n.Dirty {
			continue
		}
		if err := e.contentOf(n); err != nil {
			if interrupts(err) {
				return fmt.Errorf("restore content of %q: %w", e.path(n), err)
			}
			e.leaveContent(n, err)
		}
		e.partDone()
	}
	return nil
}

func (e *Engine) contentOf(n *layer.Node) error {
	at, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(at)
	st, err := hostfs.StatAt(at.fd, at.name)
	if err != nil {
		return err
	}
	if !n.Content && st.Size == n.Meta.Size {
		return nil
	}
	if err := e.point("apply.content"); err != nil {
		return err
	}
	fd, err := openForce(at, posix.O_RDWR, &st)
	if err != nil {
		if e.holdsContent(n, at, &st) {
			return nil
		}
		return err
	}
	defer hostfs.Close(fd)
	e.ChangedInode(n.ID)
	return e.doing(st.Ino, func() error { return e.t.PutContent(n, fd) })
}

// openForce opens a regular file of ours even where its mode forbids it. The
// metadata phase puts the mode right.
func openForce(at entry, flags int, want *hostfs.Stat) (int, error) {
	fd := -1
	_, _, err := hostfs.AllowAt(at.fd, at.name, 0o600, func() (err error) {
		fd, err = hostfs.OpenAt(at.fd, at.name, flags|posix.O_NONBLOCK, 0)
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
func (e *Engine) metaAll(ctx context.Context) error {
	for _, n := range e.t.Order {
		if n.Several && n.Place.Kind != layer.Nowhere { // their number may be another
			e.ChangedInode(n.ID)
		}
		if n.IsDir() || n.Created || n.Fresh && !n.Brought || !n.Dirty || n.Place.Kind == layer.Nowhere {
			continue
		}
		if err := e.metaOf(n); err != nil {
			return fmt.Errorf("restore metadata of %q: %w", e.path(n), err)
		}
		e.ChangedInode(n.ID)
	}
	for _, n := range e.t.Order { // directories that are not below the root
		if n.IsDir() && n.Place.Kind != layer.Nowhere && !n.Seen && n.Obj != format.RootObj {
			e.final = append(e.final, n)
		}
	}
	for i := len(e.final) - 1; i >= 0; i-- {
		n := e.final[i]
		e.ChangedInode(e.idOf(n)) // at least its mtime
		if _, granted := e.granted[n.Obj]; n.Created || n.Right && !granted {
			continue
		}
		if err := e.metaOf(n); err != nil {
			return fmt.Errorf("restore metadata of %q: %w", e.path(n), err)
		}
		delete(e.granted, n.Obj)
	}
	e.Ungrant()
	return nil
}

// metaOf sets the metadata of n, and leaves what is refused. An error is an interruption.
func (e *Engine) metaOf(n *layer.Node) error {
	if err := e.point("apply.meta"); err != nil {
		return err
	}
	err := e.setMeta(n)
	if err == nil || interrupts(err) {
		return err
	}
	at, name, _, aerr := e.lookAt(n)
	if aerr != nil {
		e.leaveMeta(n, entry{fd: -1}, err)
		return nil
	}
	defer e.done(at)
	at.name = name
	e.leaveMeta(n, at, err)
	return nil
}

func (e *Engine) setMeta(n *layer.Node) error {
	xattrs := e.t.Rec.Xattrs[n.Obj]
	if n.IsDir() {
		d, err := e.dir(n)
		if err != nil {
			return err
		}
		defer e.done(d)
		return layer.SetMeta(d.fd, &n.Meta, xattrs, n.Xattrs)
	}
	at, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(at)
	fd, err := hostfs.OpenAt(at.fd, at.name, posix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return e.setMetaInPlace(fd, &n.Meta, xattrs, n.Xattrs)
}

// MaxChanges bounds the list of changes; above it everything has changed.
const MaxChanges = 4096

func (e *Engine) changed(d *layer.Node, b *layer.Bind) {
	if len(e.Changes) <= MaxChanges {
		e.Changes = append(e.Changes, fsbridge.Change{Dir: e.idOf(d), Name: b.Name})
	}
}

// ChangedInode notes that bridges must forget what they know of an inode.
func (e *Engine) ChangedInode(id hostfs.ID) {
	if len(e.Changes) <= MaxChanges {
		e.Changes = append(e.Changes, fsbridge.Change{ID: id})
	}
}

func (e *Engine) idOf(d *layer.Node) hostfs.ID {
	if d.Obj == format.RootObj {
		return e.Root.ID()
	}
	return d.ID
}
