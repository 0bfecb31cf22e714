package undolog

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// locate finds every object of the target by the actual state of the tree and
// of the blobs, and what occupies each touched binding.
func (e *engine) locate() error {
	t := e.t
	root := t.nodes[journal.RootObj]
	if root == nil {
		return nil
	}
	root.place = place{kind: inTree}
	if err := t.findOwn(); err != nil {
		return err
	}
	for _, n := range t.order {
		if n.place.kind == inOwn && n.isDir() {
			e.queue = append(e.queue, n)
		}
	}
	if err := e.scanHold(); err != nil {
		return err
	}
	e.scanParked()
	e.queue = append(e.queue, root)
	for _, n := range t.order {
		if n.place.kind == nowhere && n.RetainedSeq != 0 {
			e.locateOlder(n)
		}
	}
	for len(e.queue) > 0 {
		d := e.queue[0]
		e.queue = e.queue[1:]
		if d.seen {
			continue
		}
		d.seen = true
		e.scanned = append(e.scanned, d)
		if err := e.scanDir(d); err != nil {
			return fmt.Errorf("look into %q: %w", e.path(d), err)
		}
	}
	for _, n := range t.order {
		n.seen = false
	}
	return e.search()
}

// search looks through the whole folder for objects of which the capture knew
// no name: files that an undo had moved while a handle was open on them, and
// files that lost one of several names and could not be retained.
func (e *engine) search() error {
	wanted := map[hostfs.ID]*node{}
	for _, n := range e.t.order {
		if e.t.nameless(n) && (n.place.kind == nowhere || e.leaves(n)) {
			wanted[n.ID] = n
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return e.root.Walk(func(dir []string, name string, st *hostfs.Stat) (more bool) {
		n := wanted[st.ID]
		if n == nil || n.typ != st.Type() {
			return true
		}
		d := e.nodeAt(dir)
		if n.place.kind != nowhere && (d == nil || e.t.bind(d.Obj, name) != nil) {
			return true
		}
		delete(wanted, st.ID)
		if d != nil {
			n.stays = n.place.kind != nowhere
			n.compare(st)
			n.place = place{inTree, d.Obj, name}
		}
		return len(wanted) > 0
	})
}

// leaves tells whether n, of which the capture knew no name, was found only under
// one that the step gave it.
func (e *engine) leaves(n *node) bool {
	if n.Parent != journal.NoObj || n.place.kind != inTree || n.isDir() {
		return false
	}
	b := e.t.bind(n.place.dir, n.place.name)
	return b != nil && b.want != n
}

// nodeAt returns the directory at a path; where the target has none it makes
// one that nothing is to be done with.
func (e *engine) nodeAt(path []string) *node {
	d := e.t.nodes[journal.RootObj]
	for i, name := range path {
		fd, err := e.root.OpenPath(strings.Join(path[:i+1], "/"), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return nil
		}
		st, err := hostfs.StatFD(fd)
		_ = hostfs.Close(fd)
		if err != nil {
			return nil
		}
		n := e.t.byHost[st.ID]
		if n == nil || n.place.kind != inTree {
			n = &node{Object: &journal.Object{Obj: e.t.next, ID: st.ID, Created: true}, typ: unix.S_IFDIR,
				place: place{inTree, d.Obj, name}}
			e.t.next++
			e.t.nodes[n.Obj] = n
			e.t.order = append(e.t.order, n)
			e.t.byHost[st.ID] = n
		}
		d = n
	}
	return d
}

// found notes where n is and has directories looked into.
func (e *engine) found(n *node, p place, mode uint32) {
	n.place = p
	if n.typ == 0 {
		n.typ = mode & unix.S_IFMT
	}
	if n.isDir() {
		e.queue = append(e.queue, n)
	}
}

// scanHold notes which objects are in the hold: put there, or made there.
func (e *engine) scanHold() error {
	hold := scanAhead(e.hold)
	defer hold.stop()
	for some := range hold.some {
		for _, b := range some {
			if b.err != nil {
				return b.err
			}
			for i, x := range b.entries {
				digits, made := strings.CutPrefix(x.Name, "m")
				if id, ok := blobObject(digits, b.shard); ok {
					if err := e.findInHold(id, made, &b.stats[i]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (e *engine) findInHold(id journal.ObjID, made bool, st *hostfs.Stat) error {
	if !made {
		e.held[id] = true
	}
	n := e.t.nodes[id]
	if n == nil || n.Obj == journal.RootObj {
		return nil
	}
	where := place{kind: inHold}
	if made {
		if !n.made || n.place.kind != nowhere {
			return nil // half made: it is made again
		}
		where.kind = inMade
	}
	if n.typ != 0 && st.Type() != n.typ {
		return fmt.Errorf("%w: blob of object %d has the wrong type", base.ErrDamaged, id)
	}
	n.compare(st)
	e.found(n, where, st.Mode)
	return nil
}

func (e *engine) locateOlder(n *node) {
	at, err := e.bucket(kindOlder, n.RetainedSeq, n.RetainedObj, false)
	if err != nil {
		return // that step is gone, and the object with it
	}
	defer e.done(at)
	st, err := hostfs.StatAt(at.fd, at.name)
	if err != nil {
		return
	}
	where := place{kind: inOlder}
	if st.IsDir() && st.ID != n.ID {
		var inside string
		if inside, st, err = store.FindBelow(at.fd, at.name, n.ID); err != nil || inside == "" {
			return
		}
		where.name = at.name + "/" + inside
	}
	if n.typ != 0 && st.Mode&unix.S_IFMT != n.typ {
		return
	}
	n.compare(&st)
	e.found(n, where, st.Mode)
}

// scanDir looks at the touched bindings of the located directory d and at its
// recorded children.
func (e *engine) scanDir(d *node) error {
	binds, children := e.t.binds[d.Obj], e.t.children[d.Obj]
	if len(binds) == 0 && len(children) == 0 {
		return nil
	}
	at, err := e.dir(d)
	if err != nil {
		return err
	}
	defer e.done(at)
	some := e.present(at.fd, len(binds)+len(children))
	for i := range binds {
		b := &binds[i]
		b.occ, b.occMode, b.occNode = hostfs.ID{}, 0, nil
		if some != nil && !some[b.name] {
			continue
		}
		st, err := e.statAt(d, at.fd, b.name)
		if errors.Is(err, syscall.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		b.occ, b.occMode = st.ID, st.Mode
		n := e.t.find(st.ID, st.Mode, b)
		if n == nil || n.Obj == journal.RootObj {
			continue
		}
		b.occNode = n
		if n.place.kind == nowhere || (n.place.kind == inOlder && n.isDir()) {
			n.compare(&st)
			e.found(n, place{inTree, d.Obj, b.name}, st.Mode)
		}
	}
	return e.scanChildren(d, at.fd, children)
}

// scanChildren finds objects where an untouched binding has them: there the
// name counts, not the number.
func (e *engine) scanChildren(d *node, fd int, children []*node) error {
	for _, n := range children {
		elsewhere := n.place.kind != nowhere
		if elsewhere && n.isDir() {
			continue
		}
		st, err := e.statAt(d, fd, n.Name)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
		if elsewhere { // also a blob: a second name was retained
			if err == nil && st.ID == n.ID {
				n.place = place{inTree, d.Obj, n.Name}
			}
			continue
		}
		if err != nil || (n.typ != 0 && st.Mode&unix.S_IFMT != n.typ) {
			e.missing = append(e.missing, n)
			continue
		}
		if st.ID != n.ID {
			e.t.setID(n, st.ID)
			e.t.byHost[st.ID] = n
		}
		n.compare(&st)
		e.found(n, place{inTree, d.Obj, n.Name}, st.Mode)
	}
	return nil
}

func (e *engine) statAt(d *node, fd int, name string) (st hostfs.Stat, err error) {
	err = e.withAccess(d, func() error {
		st, err = hostfs.StatAt(fd, name)
		return err
	})
	return st, err
}

// present lists a directory if that is cheaper than asking for wanted names
// one by one; nil says that it is not.
func (e *engine) present(fd, wanted int) map[string]bool {
	if wanted <= 8 {
		return nil
	}
	r, err := hostfs.OpenBeneath(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer hostfs.Close(r)
	names := map[string]bool{}
	for {
		more, err := hostfs.ReadDirents(r, e.buf, func(d hostfs.Dirent) bool {
			names[d.Name] = true
			return true
		})
		if err != nil || len(names) > 4*wanted {
			return nil
		}
		if !more {
			return names
		}
	}
}

// path returns where n is, for people.
func (e *engine) path(n *node) string {
	var parts []string
	for i := 0; n != nil && n.Obj != journal.RootObj && i < 10_000; i++ {
		if n.place.kind != inTree {
			parts = append(parts, fmt.Sprintf("(object %d)", n.Obj))
			break
		}
		parts = append(parts, n.place.name)
		n = e.t.nodes[n.place.dir]
	}
	s := ""
	for i := len(parts) - 1; i >= 0; i-- {
		s += parts[i]
		if i > 0 {
			s += "/"
		}
	}
	return s
}

// strays describes the files that the target or the inverse has in a blob, or
// knows no name of, and that may have names in the folder.
func (e *engine) strays() (out []hostfs.Stat, err error) {
	for _, n := range e.t.order {
		if n.isDir() || n.place.kind == nowhere || n.place.kind == inTree && n.Parent != journal.NoObj {
			continue
		}
		at, err := e.at(n)
		if err != nil {
			continue
		}
		if st, err := hostfs.StatAt(at.fd, at.name); err == nil && (st.Nlink > 1 || n.place.kind == inTree) {
			out = append(out, st)
		}
		e.done(at)
	}
	return out, nil
}
