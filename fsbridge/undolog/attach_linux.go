package undolog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// makeAll makes every object anew that is wanted and nowhere, complete, in
// the hold.
func (e *engine) makeAll(ctx context.Context) error {
	var runs [][]*node // of one bucket each: two workers in one directory hinder each other
	var last *node
	for _, n := range e.t.order {
		if !n.wanted || n.place.kind != nowhere || !e.t.makeable(n) {
			continue
		}
		if last == nil || store.ShardOf(last.Obj) != store.ShardOf(n.Obj) {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], n)
		last = n
	}
	var failed atomic.Bool
	ids, errs := make([][]hostfs.ID, len(runs)), make([]error, len(runs))
	hostfs.Each(len(runs), func(i int) {
		if failed.Load() {
			return
		}
		if ids[i], errs[i] = e.makeSome(runs[i]); errs[i] != nil {
			failed.Store(true)
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, run := range runs {
		for k, n := range run {
			e.setMade(n, ids[i][k])
			n.fresh = true
			n.place = place{kind: inMade}
		}
	}
	return nil
}

// makeSome makes what is in one bucket of the hold, and writes the numbers down
// before anything of it becomes visible. It may run on any goroutine.
func (e *engine) makeSome(run []*node) ([]hostfs.ID, error) {
	// The cache of open directories is not for workers.
	fd, err := hostfs.OpenSubdir(e.hold, store.ShardName(run[0].Obj), true)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	ids := make([]hostfs.ID, len(run))
	var inside []store.Made
	for i, n := range run {
		if ids[i], err = e.makeOne(n, fd, &inside); err != nil {
			return nil, err
		}
	}
	var buf []byte
	for i, n := range run {
		buf = store.AppendMade(buf, store.Made{Obj: n.Obj, Old: n.ID, New: ids[i]})
	}
	for _, r := range inside {
		buf = store.AppendMade(buf, r)
	}
	return ids, e.writeMade(buf)
}

// makeOne makes n under its temporary name and returns its number; inside takes
// in what is in it.
func (e *engine) makeOne(n *node, dirfd int, inside *[]store.Made) (id hostfs.ID, err error) {
	if err := fault.Point("apply.make"); err != nil {
		return id, err
	}
	xattrs, has := e.t.rec.Xattrs[n.Obj]
	if !has && e.t.inPack(n.Obj) {
		xattrs = e.t.pack.Node(n.Obj).Xattrs
		has = len(xattrs) > 0
	}
	name := madeName(n.Obj)
	first := len(*inside)
	fd, err := e.makeInode(n, dirfd, name, inside)
	if errors.Is(err, syscall.EEXIST) { // half made before we were killed
		*inside = (*inside)[:first]
		if err = hostfs.RemoveAll(context.Background(), dirfd, name, nil); err == nil {
			fd, err = e.makeInode(n, dirfd, name, inside)
		}
	}
	if err != nil {
		return id, fmt.Errorf("make %q again: %w", n.Name, err)
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	switch {
	case err != nil:
	case !n.isDir():
		err = setMetaFrom(fd, &st, &n.Meta, xattrs, has)
	case has: // the rest comes when everything is inside
		err = setXattrs(fd, xattrs)
	}
	return st.ID, err
}

// makeInode makes n with its content and returns a descriptor of it.
func (e *engine) makeInode(n *node, dirfd int, name string, inside *[]store.Made) (fd int, err error) {
	return hostfs.MakeAt(dirfd, name, n.typ|n.Meta.Mode&0o777, n.Meta.Target, func(fd int) error {
		if n.isDir() {
			if e.t.inPack(n.Obj) {
				return e.unpackInside(e.t.pack.Root(n.Obj), fd, inside)
			}
			return nil
		}
		if !e.t.inPack(n.Obj) {
			return e.t.putContent(n, fd)
		}
		p := e.t.pack.Node(n.Obj) // as it was when it was removed
		err := e.t.unpackFile(p, fd)
		if err == nil && (n.content || p.Meta.Size != n.Meta.Size) {
			err = e.t.putContent(n, fd)
		}
		return err
	})
}

// writeMade appends to the file "made". It may run on any goroutine.
func (e *engine) writeMade(buf []byte) error {
	if err := fault.Point("apply.made"); err != nil {
		return err
	}
	e.madeMu.Lock()
	defer e.madeMu.Unlock()
	if err := hostfs.WriteFull(e.made, buf); err != nil {
		return fmt.Errorf("note numbers: %w", err)
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
	for _, n := range e.twice {
		x, err := e.bucket(kindHold, 0, n.Obj, false)
		if err != nil {
			return err
		}
		err = hostfs.UnlinkAt(x.fd, madeName(n.Obj))
		e.done(x)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
	f := e.follow()
	err := errors.Join(e.attachFrom(f), f.wait())
	for i := 0; i < len(f.left) && err == nil; i++ {
		err = e.attachOne(f.left[i].d, f.left[i].b)
	}
	return err
}

// attachFrom goes through the directories from the root on, and hands those that
// are done over to f, with the files that it can put into them.
func (e *engine) attachFrom(f *follower) error {
	queue := []*node{e.t.nodes[journal.RootObj]}
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
		j := followed{n: d}
		binds, wrong := e.t.binds[d.Obj], false
		for i := range binds {
			b := &binds[i]
			wrong = wrong || b.wrong
			if b.wrong && !f.takes(&j, b) {
				if err := e.attachOne(d, b); err != nil {
					return err
				}
			}
			if b.want != nil {
				visit(b.want)
			}
		}
		if wrong {
			f.pass(&j)
		}
		for _, c := range e.t.children[d.Obj] {
			if c.place.kind == inTree {
				visit(c)
			}
		}
	}
	return nil
}

func (e *engine) attachOne(d *node, b *bind) error {
	if err := e.attach(d, b); err != nil {
		return fmt.Errorf("put %q back: %w", e.path(d)+"/"+b.name, err)
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
	if err := fault.Point("apply.attach"); err != nil {
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
	e.attached(d, b)
	return nil
}

// attached notes that the object of b is in d.
func (e *engine) attached(d *node, b *bind) {
	b.want.place = place{inTree, d.Obj, b.name}
	b.want.came = true
}

// put gives n, which is at from, its name.
func (e *engine) put(n, d *node, from entry, fd int, name string) error {
	if n.place.kind == inTree || n.place.kind == inOlder {
		if n.isDir() {
			return fmt.Errorf("%w: directory object %d has two places", base.ErrDamaged, n.Obj)
		}
		return hostfs.LinkAt(from.fd, from.name, fd, name)
	}
	rename := func() error { return hostfs.RenameNew(from.fd, from.name, fd, name) }
	var err error
	if n.isDir() {
		var given bool
		_, given, err = hostfs.AllowAt(from.fd, from.name, 0o700, rename)
		n.dirty = n.dirty || given // the metadata phase puts it right
	} else {
		err = rename()
	}
	if errors.Is(err, syscall.EXDEV) {
		err = e.attachByCopy(n, d, from, fd, name)
	}
	return err
}
