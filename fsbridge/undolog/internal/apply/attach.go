package apply

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// makeAll makes every object anew that is wanted and nowhere, complete, in
// the hold.
func (e *Engine) makeAll(ctx context.Context) error {
	var runs [][]*layer.Node // of one bucket each: two workers in one directory hinder each other
	var last *layer.Node
	for _, n := range e.t.Order {
		if !n.Wanted || n.Place.Kind != layer.Nowhere || !e.t.Makeable(n) {
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
			if ids[i][k].Ino == 0 { // left
				continue
			}
			e.setMade(n, ids[i][k])
			n.Fresh = true
			n.Place = layer.Place{Kind: layer.InMade}
		}
	}
	return nil
}

// makeSome makes what is in one bucket of the hold, and writes the numbers down
// before anything of it becomes visible. It may run on any goroutine.
func (e *Engine) makeSome(run []*layer.Node) ([]hostfs.ID, error) {
	// The cache of open directories is not for workers.
	fd, err := hostfs.OpenSubdir(e.hold, store.ShardName(run[0].Obj), true)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	ids := make([]hostfs.ID, len(run))
	var inside []store.Made
	for i, n := range run {
		first := len(inside)
		if ids[i], err = e.makeOne(n, fd, &inside); err != nil {
			if interrupts(err) {
				return nil, err
			}
			ids[i], inside = hostfs.ID{}, inside[:first]
			e.unmake(n, errors.Join(err, hostfs.RemoveAll(context.Background(), fd, madeName(n.Obj), nil)))
		}
		e.partDone()
	}
	var buf []byte
	for i, n := range run {
		if ids[i].Ino == 0 {
			continue
		}
		buf = store.AppendMade(buf, store.Made{Obj: n.Obj, Old: n.ID, New: ids[i]}, e.Volumes)
	}
	for _, r := range inside {
		buf = store.AppendMade(buf, r, e.Volumes)
	}
	return ids, e.writeMade(buf)
}

// makeOne makes n under its temporary name and returns its number; inside takes
// in what is in it.
func (e *Engine) makeOne(n *layer.Node, dirfd int, inside *[]store.Made) (id hostfs.ID, err error) {
	if err := e.point("apply.make"); err != nil {
		return id, err
	}
	xattrs, has := e.t.Attributes(n)
	name := madeName(n.Obj)
	first := len(*inside)
	fd, err := e.makeInode(n, dirfd, name, xattrs, inside)
	if errors.Is(err, posix.EEXIST) { // half made before we were killed
		*inside = (*inside)[:first]
		if err = hostfs.RemoveAll(context.Background(), dirfd, name, nil); err == nil {
			fd, err = e.makeInode(n, dirfd, name, xattrs, inside)
		}
	}
	if err != nil {
		return id, fmt.Errorf("make %q again: %w", n.Name, err)
	}
	defer hostfs.Close(fd)
	if n.Type == posix.S_IFIFO || n.Type == posix.S_IFSOCK {
		if err := layer.Bare(fd, n.Type, xattrs); err != nil {
			return id, err
		}
	}
	st, err := hostfs.StatFD(fd)
	switch {
	case err != nil:
	case !n.IsDir():
		err = layer.SetMetaFrom(fd, &st, &n.Meta, xattrs, has)
		if refused := (*layer.RefusedError)(nil); errors.As(err, &refused) { // it is there, but for that
			e.leaveMeta(n, entry{fd: -1}, err)
			err = nil
		}
	case has: // the rest comes when everything is inside
		err = layer.SetXattrs(fd, xattrs)
	}
	return st.ID, err
}

// makeInode makes n with its content and returns a descriptor of it.
func (e *Engine) makeInode(n *layer.Node, dirfd int, name string, xattrs []hostfs.Xattr, inside *[]store.Made) (fd int, err error) {
	return hostfs.MakeAt(dirfd, name, n.Type|n.Meta.Mode&0o777, n.Meta.Target, func(fd int) error {
		if err := layer.Bare(fd, n.Type, xattrs); err != nil {
			return err
		}
		if n.IsDir() {
			if e.t.InPack(n.Obj) {
				return e.unpackInside(e.t.Pack.Root(n.Obj), fd, inside)
			}
			return nil
		}
		if !e.t.InPack(n.Obj) {
			return e.t.PutContent(n, fd)
		}
		p := e.t.Pack.Node(n.Obj) // as it was when it was removed
		err := e.t.UnpackFile(p, fd)
		if err == nil && (n.Content || p.Meta.Size != n.Meta.Size) {
			err = e.t.PutContent(n, fd)
		}
		return err
	})
}

// writeMade appends to the file "made". It may run on any goroutine.
func (e *Engine) writeMade(buf []byte) error {
	if err := e.point("apply.made"); err != nil {
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
func (e *Engine) setMade(n *layer.Node, id hostfs.ID) {
	e.t.SetID(n, id)
	n.Made = true
	e.t.ByHost[id] = n
}

// attachAll puts every object where it should be, parents first.
func (e *Engine) attachAll(ctx context.Context) error {
	for _, n := range e.twice {
		x, err := e.bucket(kindHold, 0, n.Obj, false)
		if err != nil {
			return err
		}
		err = hostfs.RemoveAll(ctx, x.fd, madeName(n.Obj), nil)
		e.done(x)
		if err != nil {
			return err
		}
	}
	f := e.follow()
	err := errors.Join(e.attachFrom(f), f.wait())
	for _, d := range e.sources {
		d.Right = false
	}
	for i := 0; i < len(f.left) && err == nil; i++ {
		err = e.attachOne(f.left[i].d, f.left[i].b)
	}
	return err
}

// attachFrom goes through the directories from the root on, and hands those that
// are done over to f, with the files that it can put into them.
func (e *Engine) attachFrom(f *follower) error {
	queue := []*layer.Node{e.t.Nodes[format.RootObj]}
	if queue[0] == nil {
		return nil
	}
	visit := func(n *layer.Node) {
		if n.IsDir() && !n.Seen && n.Place.Kind != layer.Nowhere {
			n.Seen = true
			queue = append(queue, n)
		}
	}
	for {
		if len(queue) == 0 { // a directory that was moved from outside is under a name that no record tells
			for _, n := range e.t.Order {
				if n.Place.Kind == layer.InTree && !n.Created && n.Obj != format.RootObj {
					visit(n)
				}
			}
		}
		if len(queue) == 0 {
			return nil
		}
		d := queue[0]
		queue = queue[1:]
		e.final = append(e.final, d)
		j := followed{n: d}
		binds, wrong := e.t.Binds[d.Obj], false
		for i := range binds {
			b := &binds[i]
			wrong = wrong || b.Wrong
			if b.Wrong && !f.takes(&j, b) {
				if err := e.attachOne(d, b); err != nil {
					return err
				}
			}
			if b.Want != nil {
				visit(b.Want)
			}
		}
		if wrong {
			f.pass(&j)
		}
		for _, c := range e.t.Children[d.Obj] {
			if c.Place.Kind == layer.InTree {
				visit(c)
			}
		}
	}
}

func (e *Engine) attachOne(d *layer.Node, b *layer.Bind) error {
	defer e.partDone()
	if _, left := e.left.binds[b]; left {
		return nil
	}
	err := e.attach(d, b)
	if err == nil {
		return nil
	}
	if interrupts(err) {
		return fmt.Errorf("put %q back: %w", e.path(d)+"/"+b.Name, err)
	}
	e.leaveBind(d, b, e.reasonAt(d, "", err))
	return e.putBack()
}

func (e *Engine) attach(d *layer.Node, b *layer.Bind) error {
	n := b.Want
	at, err := e.dir(d)
	if err != nil {
		return err
	}
	defer e.done(at)
	e.changed(d, b)
	if n == nil {
		return nil
	}
	if n.Place.Kind == layer.Nowhere {
		return e.left.unmade[n.Obj]
	}
	from, err := e.at(n)
	if err != nil {
		return err
	}
	defer e.done(from)
	put := func() error { return e.put(n, d, from, at.fd, b.Name) }
	if err := e.point("apply.attach"); err != nil {
		return err
	}
	err = e.withAccess(d, put)
	if errors.Is(err, posix.EEXIST) { // somebody was quicker: keep theirs, too
		if err = e.detach(d, at.fd, b.Name, nil); err == nil {
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
func (e *Engine) attached(d *layer.Node, b *layer.Bind) {
	b.Want.Place = layer.InDir(d.Obj, b.Name)
	b.Want.Came = true
}

// put gives n, which is at from, its name.
func (e *Engine) put(n, d *layer.Node, from entry, fd int, name string) error {
	if n.Place.Kind == layer.InTree || n.Place.Kind == layer.InOlder {
		if n.IsDir() {
			return fmt.Errorf("%w: directory object %d has two places", format.ErrDamaged, n.Obj)
		}
		if dir := e.t.Nodes[n.Place.Dir]; n.Place.Kind == layer.InTree && dir != nil {
			e.sources = append(e.sources, dir)
		}
		return hostfs.LinkAt(from.fd, from.name, fd, name)
	}
	rename := func() error { return hostfs.RenameNew(from.fd, from.name, fd, name) }
	var err error
	if n.IsDir() {
		var given bool
		_, given, err = hostfs.AllowAt(from.fd, from.name, 0o700, rename)
		n.Dirty = n.Dirty || given // the metadata phase puts it right
	} else {
		err = rename()
	}
	if errors.Is(err, posix.EXDEV) {
		err = e.attachByCopy(n, d, from, fd, name)
	}
	return err
}
