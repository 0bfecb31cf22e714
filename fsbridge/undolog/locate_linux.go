package undolog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// locate finds every object of the target by the actual state of the tree and
// of the blobs, and what occupies each touched binding.
func (e *engine) locate() error {
	t := e.t
	root := t.nodes[rootObj]
	if root == nil {
		return nil
	}
	root.place = place{kind: inTree}
	if err := e.scanBlobs(e.ahead.scan, inOwn); err != nil {
		return err
	}
	hold := scanAhead(e.hold)
	defer hold.stop()
	if err := e.scanBlobs(hold, inHold); err != nil {
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
	return walkFolder(e.root, func(dir []string, name string, st *hostfs.Stat) (more bool) {
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
			e.check(n, st)
			n.place = place{inTree, d.Obj, name}
		}
		return len(wanted) > 0
	})
}

// leaves tells whether n, of which the capture knew no name, was found only under
// one that the step gave it.
func (e *engine) leaves(n *node) bool {
	if n.Parent != noObj || n.place.kind != inTree || n.isDir() {
		return false
	}
	b := e.t.bind(n.place.dir, n.place.name)
	return b != nil && b.want != n
}

// nameless tells whether n may have a name that the records do not tell.
func (t *target) nameless(n *node) bool {
	linked := n.Meta.Nlink > 1 && !n.isDir() && !t.rec.Freed[n.Obj]
	return !n.Created && n.Obj != rootObj && (n.Parent == noObj && n.RetainedSeq == 0 || linked)
}

// walkFolder calls f for everything in the folder that is ours to read, until
// f returns false.
func walkFolder(root *hostfs.Root, f func(dir []string, name string, st *hostfs.Stat) bool) error {
	paths := [][]string{{}}
	for len(paths) > 0 {
		dir := paths[len(paths)-1]
		paths = paths[:len(paths)-1]
		fd, err := root.OpenPath(strings.Join(dir, "/"), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue // not ours to read, so nothing of ours is in it
		}
		entries, err := hostfs.ReadDir(fd)
		for _, x := range entries {
			st, err := hostfs.StatAt(fd, x.Name)
			if err != nil {
				continue
			}
			if st.IsDir() {
				paths = append(paths, append(dir[:len(dir):len(dir)], x.Name))
			}
			if !f(dir, x.Name, &st) {
				_ = hostfs.Close(fd)
				return nil
			}
		}
		_ = hostfs.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// nodeAt returns the directory at a path; where the target has none it makes
// one that nothing is to be done with.
func (e *engine) nodeAt(path []string) *node {
	d := e.t.nodes[rootObj]
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
			n = &node{objectRecord: &objectRecord{Obj: e.t.next, ID: st.ID, Created: true}, typ: unix.S_IFDIR,
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

// scanBlobs notes which objects are in a blobs directory.
func (e *engine) scanBlobs(s *blobScan, kind placeKind) error {
	for some := range s.some {
		for _, b := range some {
			if b.err != nil {
				return b.err
			}
			for j, x := range b.entries {
				if err := e.scanBlob(x.Name, &b.stats[j], b.shard, kind); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (e *engine) scanBlob(name string, st *hostfs.Stat, shard uint64, kind placeKind) error {
	digits := name
	if kind == inHold && name[0] == 'm' {
		digits = name[1:]
	}
	id, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || strconv.FormatUint(id, 10) != digits || shardOf(objID(id)) != shard {
		return nil // a content blob, or nothing of ours
	}
	n := e.t.nodes[objID(id)]
	if kind == inHold && digits == name {
		e.held[objID(id)] = true
	}
	if n == nil || n.Obj == rootObj {
		return nil
	}
	if digits != name {
		if !n.made || n.place.kind != nowhere {
			return nil // half made: it is made again
		}
		kind = inMade
	}
	if n.typ != 0 && st.Mode&unix.S_IFMT != n.typ {
		return fmt.Errorf("%w: blob of object %d has the wrong type", ErrDamaged, id)
	}
	if kind == inOwn {
		if n.Created || !e.t.rec.Retained[n.Obj] {
			return nil
		}
		if st.ID != n.ID { // retaining meant copying
			e.t.setID(n, st.ID)
		}
		e.t.byHost[st.ID] = n
		n.shared = !st.IsDir() && st.Nlink > 1
	}
	e.check(n, st)
	e.found(n, place{kind: kind}, st.Mode)
	return nil
}

// check notes whether the metadata of n must be put right.
func (e *engine) check(n *node, st *hostfs.Stat) {
	m := &n.Meta
	n.several = !st.IsDir() && (st.Nlink > 1 || !n.Created && m.Nlink > 1)
	n.dirty = !n.Created && (n.content || n.xattrs || st.Mode&0o7777 != m.Mode&0o7777 ||
		st.UID != m.UID || st.GID != m.GID || st.Mtime != m.Mtime)
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
		if inside, st, err = findBelow(at.fd, at.name, n.ID); err != nil || inside == "" {
			return
		}
		where.name = at.name + "/" + inside
	}
	if n.typ != 0 && st.Mode&unix.S_IFMT != n.typ {
		return
	}
	e.check(n, &st)
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
		if n == nil || n.Obj == rootObj {
			continue
		}
		b.occNode = n
		if n.place.kind == nowhere || (n.place.kind == inOlder && n.isDir()) {
			e.check(n, &st)
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
		e.check(n, &st)
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

// readDirAt lists the directory behind fd, which may be O_PATH.
func readDirAt(fd int) ([]hostfs.Dirent, error) {
	r, err := hostfs.OpenBeneath(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(r)
	return hostfs.ReadDir(r)
}

// path returns where n is, for people.
func (e *engine) path(n *node) string {
	var parts []string
	for i := 0; n != nil && n.Obj != rootObj && i < 10_000; i++ {
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
