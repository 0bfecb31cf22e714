package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// makeBatch is how many objects are made before their numbers are written
// down and they move to their places.
const makeBatch = 1024

// makeAll makes every object anew that is wanted and nowhere, complete, in
// the hold.
func (e *engine) makeAll(ctx context.Context) error {
	var todo []*node
	for _, n := range e.t.order {
		if n.wanted && n.place.kind == nowhere && e.t.makeable(n, e.inPack) {
			todo = append(todo, n)
		}
	}
	for batch := range slices.Chunk(todo, makeBatch) {
		if err := e.makeSome(batch); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) makeSome(batch []*node) error {
	stats := make([]hostfs.Stat, len(batch))
	errs := make([]error, len(batch))
	type run struct { // of the batch in one bucket: two workers in one directory hinder each other
		x        entry
		from, to int
	}
	var runs []run
	defer func() {
		for _, r := range runs {
			e.done(r.x)
		}
	}()
	for i, n := range batch { // the cache is not for workers
		if last := len(runs) - 1; last >= 0 && batch[i-1].Obj/blobFanOut == n.Obj/blobFanOut {
			runs[last].to++
			continue
		}
		x, err := e.bucket(kindHold, 0, n.Obj, true)
		if err != nil {
			return err
		}
		runs = append(runs, run{x, i, i + 1})
	}
	each(len(runs), func(r int) {
		for i := runs[r].from; i < runs[r].to; i++ {
			if stats[i], errs[i] = e.makeOne(batch[i], runs[r].x.fd); errs[i] != nil {
				return
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return e.noteMade(batch, stats)
}

// makeOne makes n under its temporary name. It may run on any goroutine.
func (e *engine) makeOne(n *node, dirfd int) (st hostfs.Stat, err error) {
	if err := faultPoint("apply.make"); err != nil {
		return st, err
	}
	xattrs, has := e.t.rec.Xattrs[n.Obj]
	if !has && e.inPack(n.Obj) {
		xattrs = e.pack.node(n.Obj).Xattrs
		has = len(xattrs) > 0
	}
	name := madeName(n.Obj)
	fd, err := e.makeInode(n, dirfd, name)
	if errors.Is(err, syscall.EEXIST) { // half made before we were killed
		if err = removeAll(context.Background(), dirfd, name); err == nil {
			fd, err = e.makeInode(n, dirfd, name)
		}
	}
	if err != nil {
		return st, fmt.Errorf("make %q again: %w", n.Name, err)
	}
	defer hostfs.Close(fd)
	switch {
	case !n.isDir():
		err = e.setMeta(fd, n, xattrs, has)
	case has: // the rest comes when everything is inside
		err = e.setXattrs(fd, xattrs)
	}
	if err != nil {
		return st, err
	}
	return hostfs.StatFD(fd)
}

// makeInode makes n with its content and returns a descriptor of it.
func (e *engine) makeInode(n *node, dirfd int, name string) (fd int, err error) {
	switch n.typ {
	case unix.S_IFREG:
		return e.makeFile(n, dirfd, name)
	case unix.S_IFDIR:
		if err = hostfs.MkdirAt(dirfd, name, 0o700); err == nil && e.inPack(n.Obj) {
			err = e.unpackInside(e.pack.roots[n.Obj], dirfd, name)
		}
	case unix.S_IFLNK:
		err = hostfs.SymlinkAt(n.Meta.Target, dirfd, name)
	default:
		err = hostfs.MknodAt(dirfd, name, n.typ|0o600)
	}
	if err != nil {
		return -1, err
	}
	return hostfs.OpenAt(dirfd, name, unix.O_PATH, 0)
}

func (e *engine) makeFile(n *node, dirfd int, name string) (int, error) {
	fd, err := hostfs.OpenAt(dirfd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, n.Meta.Mode&0o777)
	if err != nil {
		return -1, err
	}
	rest := true
	if e.inPack(n.Obj) { // as it was when it was removed
		p := e.pack.node(n.Obj)
		err = e.unpackFile(p, fd)
		rest = n.content || p.Meta.Size != n.Meta.Size
	}
	if err == nil && rest {
		err = e.putContent(n, fd)
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, err
	}
	return fd, nil
}

// noteMade writes the numbers of what was made down, before anything of it
// becomes visible.
func (e *engine) noteMade(batch []*node, stats []hostfs.Stat) error {
	var buf []byte
	for i, n := range batch {
		buf = appendMade(buf, madeRecord{obj: n.Obj, old: n.ID, new: stats[i].ID})
	}
	for _, r := range e.inside.made {
		buf = appendMade(buf, r)
	}
	e.inside.made = nil
	if err := e.writeMade(buf); err != nil {
		return err
	}
	for i, n := range batch {
		e.setMade(n, stats[i].ID)
		n.fresh = true
		n.place = place{kind: inMade}
	}
	return nil
}

func (e *engine) writeMade(buf []byte) error {
	if err := faultPoint("apply.made"); err != nil {
		return err
	}
	for len(buf) > 0 {
		n, err := unix.Write(e.made, buf)
		if err != nil {
			return fmt.Errorf("note numbers: %w", err)
		}
		buf = buf[n:]
	}
	return nil
}

// setMade gives n the number it has since it was made anew.
func (e *engine) setMade(n *node, id hostfs.ID) {
	e.t.setID(n, id)
	n.made = true
	e.t.byHost[id] = n
}

// attachAll puts every object where it should be, parents first.
func (e *engine) attachAll(ctx context.Context) error {
	f := e.follow()
	return errors.Join(e.attachFrom(f), f.wait())
}

// attachFrom goes through the directories from the root on, and tells f of those
// that are done.
func (e *engine) attachFrom(f *follower) error {
	queue := []*node{e.t.nodes[rootObj]}
	if queue[0] == nil {
		return nil
	}
	visit := func(n *node) {
		if n.isDir() && !n.seen && n.place.kind != nowhere {
			n.seen = true
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		e.final = append(e.final, d)
		binds, wrong := e.t.binds[d.Obj], false
		for i := range binds {
			b := &binds[i]
			if b.wrong {
				wrong = true
				if err := e.attach(d, b); err != nil {
					return fmt.Errorf("put %q back: %w", e.path(d)+"/"+b.name, err)
				}
			}
			if b.want != nil {
				visit(b.want)
			}
		}
		if wrong {
			f.pass(d)
		}
		for _, c := range e.t.children[d.Obj] {
			if c.place.kind == inTree {
				visit(c)
			}
		}
	}
	return nil
}

func (e *engine) attach(d *node, b *bind) error {
	n := b.want
	at, err := e.dir(d)
	if err != nil {
		return err
	}
	defer e.done(at)
	e.changed(d, b)
	if n == nil || n.place.kind == nowhere {
		return nil
	}
	from, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(from)
	put := func() error { return e.put(n, d, from, at.fd, b.name) }
	if err := faultPoint("apply.attach"); err != nil {
		return err
	}
	err = e.withAccess(d, put)
	if errors.Is(err, syscall.EEXIST) { // somebody was quicker: keep theirs, too
		if err = e.detach(d, at.fd, b.name, nil); err == nil {
			err = put()
		}
	}
	if err != nil {
		return err
	}
	n.place = place{inTree, d.Obj, b.name}
	n.came = true
	e.restored++
	return nil
}

// put gives n, which is at from, its name.
func (e *engine) put(n, d *node, from entry, fd int, name string) error {
	if n.place.kind == inTree || n.place.kind == inOlder {
		if n.isDir() {
			return fmt.Errorf("%w: directory object %d has two places", ErrDamaged, n.Obj)
		}
		return hostfs.LinkAt(from.fd, from.name, fd, name)
	}
	err := renameNoReplace(from.fd, from.name, fd, name)
	if errors.Is(err, syscall.EACCES) && n.isDir() {
		st, serr := hostfs.StatAt(from.fd, from.name)
		if serr == nil && st.Mode&0o700 != 0o700 { // the metadata phase puts it right
			if err = hostfs.ChmodAt(from.fd, from.name, st.Mode|0o700); err == nil {
				n.dirty = true
				err = renameNoReplace(from.fd, from.name, fd, name)
			}
		}
	}
	if errors.Is(err, syscall.EXDEV) {
		err = e.attachByCopy(n, d, from, fd, name)
	}
	return err
}
