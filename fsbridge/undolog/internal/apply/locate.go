package apply

import (
	"errors"
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// locate finds every object of the target by the actual state of the tree and
// of the blobs, and what occupies each touched binding.
func (e *Engine) locate() error {
	t := e.t
	root := t.Nodes[format.RootObj]
	if root == nil {
		return nil
	}
	root.Place = layer.Place{Kind: layer.InTree}
	t.Exact = true
	if err := t.FindOwn(); err != nil {
		return err
	}
	for _, n := range t.Order {
		if n.Place.Kind == layer.InOwn && n.IsDir() {
			e.queue = append(e.queue, n)
		}
	}
	if err := e.scanHold(); err != nil {
		return err
	}
	e.scanParked()
	e.queue = append(e.queue, root)
	for _, n := range t.Order {
		if n.Place.Kind == layer.Nowhere && n.RetainedSeq != 0 {
			e.locateOlder(n)
		}
	}
	if err := e.scanQueue(); err != nil {
		return err
	}
	for _, c := range e.across.inHold {
		if c.n.Place.Kind == layer.Nowhere {
			c.n.Compare(&c.st)
			e.found(c.n, layer.Place{Kind: layer.InHold}, c.st.Mode)
		}
	}
	if err := e.scanQueue(); err != nil {
		return err
	}
	if err := e.searchMoved(); err != nil {
		return err
	}
	for _, n := range t.Order {
		n.Seen = false
	}
	return e.search()
}

// scanQueue looks into the directories that were found.
func (e *Engine) scanQueue() error {
	for len(e.queue) > 0 {
		d := e.queue[0]
		e.queue = e.queue[1:]
		if d.Seen {
			continue
		}
		d.Seen = true
		e.scanned = append(e.scanned, d)
		if err := e.scanDir(d); err != nil {
			if interrupts(err) || errors.Is(err, format.ErrDamaged) {
				return fmt.Errorf("look into %q: %w", e.path(d), err)
			}
			e.left.closed[d] = err
		}
	}
	return nil
}

// search looks through the whole folder for objects of which the capture knew
// no name: files that an undo had moved while a handle was open on them, and
// files that lost one of several names and could not be retained.
func (e *Engine) search() error {
	wanted := map[hostfs.ID]*layer.Node{}
	for _, n := range e.t.Order {
		if e.t.Nameless(n) && (n.Place.Kind == layer.Nowhere || e.leaves(n)) {
			wanted[n.ID] = n
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return e.Root.Walk(func(dir []string, name string, st *hostfs.Stat) (more bool) {
		n := wanted[st.ID]
		if n == nil || n.Type != st.Type() {
			return true
		}
		d := e.nodeAt(dir)
		if n.Place.Kind != layer.Nowhere && (d == nil || e.t.Bind(d.Obj, name) != nil) {
			return true
		}
		delete(wanted, st.ID)
		if d != nil {
			n.Stays = n.Place.Kind != layer.Nowhere
			n.Compare(st)
			n.Place = layer.InDir(d.Obj, name)
		}
		return len(wanted) > 0
	})
}

// leaves tells whether n, of which the capture knew no name, was found only under
// one that the step gave it.
func (e *Engine) leaves(n *layer.Node) bool {
	if n.Parent != format.NoObj || n.Place.Kind != layer.InTree || n.IsDir() {
		return false
	}
	b := e.t.Bind(n.Place.Dir, n.Place.Name)
	return b != nil && b.Want != n
}

// nodeAt returns the directory at a path; where the target has none it makes
// one that nothing is to be done with.
func (e *Engine) nodeAt(path []string) *layer.Node {
	d := e.t.Nodes[format.RootObj]
	for i, name := range path {
		fd, err := e.Root.OpenPath(strings.Join(path[:i+1], "/"), posix.O_PATH|posix.O_DIRECTORY)
		if err != nil {
			return nil
		}
		st, err := hostfs.StatFD(fd)
		_ = hostfs.Close(fd)
		if err != nil {
			return nil
		}
		n := e.t.ByHost[st.ID]
		if n == nil || n.Place.Kind != layer.InTree {
			n = &layer.Node{Object: &format.Object{Obj: e.t.Next, ID: st.ID, Created: true}, Type: posix.S_IFDIR,
				Place: layer.InDir(d.Obj, name)}
			e.t.Next++
			e.t.Nodes[n.Obj] = n
			e.t.Order = append(e.t.Order, n)
			e.t.ByHost[st.ID] = n
		}
		d = n
	}
	return d
}

// found notes where n is and has directories looked into.
func (e *Engine) found(n *layer.Node, p layer.Place, mode uint32) {
	n.Place = p
	if n.Type == 0 {
		n.Type = mode & posix.S_IFMT
	}
	if n.IsDir() {
		e.queue = append(e.queue, n)
	}
}

// scanHold notes which objects are in the hold: put there, or made there.
func (e *Engine) scanHold() error {
	hold := layer.ScanAhead(e.hold)
	defer hold.Stop()
	for some := range hold.Some {
		for _, b := range some {
			if b.Err != nil {
				return b.Err
			}
			for i, x := range b.Entries {
				digits, made := strings.CutPrefix(x.Name, "m")
				if id, ok := layer.BlobObject(digits, b.Shard); ok {
					if err := e.findInHold(id, made, &b.Stats[i]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (e *Engine) findInHold(id format.ObjID, made bool, st *hostfs.Stat) error {
	if !made {
		e.held[id] = true
	}
	n := e.t.Nodes[id]
	if n == nil || n.Obj == format.RootObj {
		return nil
	}
	where := layer.Place{Kind: layer.InHold}
	if made {
		if !n.Made || n.Place.Kind != layer.Nowhere {
			return nil // half made: it is made again
		}
		where.Kind = layer.InMade
	}
	if n.Type != 0 && st.Type() != n.Type {
		return fmt.Errorf("%w: blob of object %d has the wrong type", format.ErrDamaged, id)
	}
	if e.across.noted[st.ID] && !made { // the original may be there still: that counts
		e.across.inHold = append(e.across.inHold, keptNode{n, *st})
		return nil
	}
	n.Compare(st)
	e.found(n, where, st.Mode)
	return nil
}

func (e *Engine) locateOlder(n *layer.Node) {
	at, err := e.bucket(kindOlder, n.RetainedSeq, n.RetainedObj, false)
	if err != nil {
		return // that step is gone, and the object with it
	}
	defer e.done(at)
	st, err := hostfs.StatAt(at.fd, at.name)
	if err != nil {
		return
	}
	where := layer.Place{Kind: layer.InOlder}
	if st.IsDir() && st.ID != n.ID {
		var inside string
		if inside, st, err = store.FindBelow(at.fd, at.name, n.ID); err != nil || inside == "" {
			return
		}
		where.Name = at.name + "/" + inside
	}
	if n.Type != 0 && st.Mode&posix.S_IFMT != n.Type {
		return
	}
	n.Compare(&st)
	e.found(n, where, st.Mode)
}

// scanDir looks at the touched bindings of the located directory d and at its
// recorded children.
func (e *Engine) scanDir(d *layer.Node) error {
	binds, children := e.t.Binds[d.Obj], e.t.Children[d.Obj]
	if len(binds) == 0 && len(children) == 0 {
		return nil
	}
	at, err := e.dir(d)
	if err != nil {
		return err
	}
	defer e.done(at)
	some := e.present(at.fd, len(binds)+len(children))
	several := &cases{binds: binds, children: children}
	for i := range binds {
		b := &binds[i]
		b.Occ, b.OccMode, b.OccNode = hostfs.ID{}, 0, nil
		if some != nil && !some[b.Name] {
			continue
		}
		st, err := e.statAt(d, at.fd, b.Name)
		if errors.Is(err, posix.ENOENT) || err == nil && several.other(at.fd, b.Name, &st) {
			continue
		}
		if err != nil {
			return err
		}
		b.Occ, b.OccMode = st.ID, st.Mode
		n := e.t.Find(st.ID, st.Mode, b)
		if n == nil || n.Obj == format.RootObj {
			continue
		}
		b.OccNode = n
		if n.Place.Kind == layer.Nowhere || (n.Place.Kind == layer.InOlder && n.IsDir()) {
			n.Compare(&st)
			e.found(n, layer.InDir(d.Obj, b.Name), st.Mode)
		}
	}
	return e.scanChildren(d, at.fd, children, several)
}

// cases are the names of one directory of which another differs only in case: a name that changed its case. Where case does not
// count, each leads to what has one of them.
type cases struct {
	binds    []layer.Bind
	children []*layer.Node
	exact    bool           // case counts here
	names    map[string]int // how many there are, folded; nil: nobody has asked
}

// other tells whether the directory has what was found by name, st, under another spelling of it.
func (c *cases) other(fd int, name string, st *hostfs.Stat) bool {
	if c.exact || len(c.binds)+len(c.children) < 2 || c.names != nil && c.names[foldCase(name)] < 2 {
		return false
	}
	var disk string
	disk, c.exact = hostfs.DiskName(fd, name, st)
	if c.exact {
		return false
	}
	if c.names == nil {
		c.names = make(map[string]int, len(c.binds)+len(c.children))
		for i := range c.binds {
			c.names[foldCase(c.binds[i].Name)]++
		}
		for _, n := range c.children {
			c.names[foldCase(n.Name)]++
		}
	}
	return c.names[foldCase(name)] > 1 && disk != name && strings.EqualFold(disk, name)
}

// foldCase is equal for names that are [strings.EqualFold].
func foldCase(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// scanChildren finds objects where an untouched binding has them: there the
// name counts, not the number.
func (e *Engine) scanChildren(d *layer.Node, fd int, children []*layer.Node, several *cases) error {
	for _, n := range children {
		elsewhere := n.Place.Kind != layer.Nowhere
		if elsewhere && n.IsDir() {
			continue
		}
		st, err := e.statAt(d, fd, n.Name)
		if err == nil && several.other(fd, n.Name, &st) {
			err = posix.ENOENT
		}
		if err != nil && !errors.Is(err, posix.ENOENT) {
			return err
		}
		if elsewhere { // also a blob: a second name was retained
			if err == nil && st.ID == n.ID {
				n.Place = layer.InDir(d.Obj, n.Name)
			}
			continue
		}
		if err != nil || (n.Type != 0 && st.Mode&posix.S_IFMT != n.Type) {
			e.missing = append(e.missing, n)
			continue
		}
		if st.ID != n.ID {
			e.t.SetID(n, st.ID)
			e.t.ByHost[st.ID] = n
		}
		n.Compare(&st)
		e.found(n, layer.InDir(d.Obj, n.Name), st.Mode)
	}
	return nil
}

func (e *Engine) statAt(d *layer.Node, fd int, name string) (st hostfs.Stat, err error) {
	err = e.withAccess(d, func() error {
		st, err = hostfs.StatAt(fd, name)
		return err
	})
	return st, err
}

// present lists a directory if that is cheaper than asking for wanted names
// one by one; nil says that it is not.
func (e *Engine) present(fd, wanted int) map[string]bool {
	if wanted <= 8 {
		return nil
	}
	r, err := hostfs.OpenBeneath(fd, ".", posix.O_RDONLY|posix.O_DIRECTORY)
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
func (e *Engine) path(n *layer.Node) string { return e.pathAfter(n, nil) }

// pathAfter returns where n will be when what goes somewhere is there, for people.
func (e *Engine) pathAfter(n *layer.Node, goes map[*layer.Node]layer.Place) string {
	var parts []string
	for i := 0; n != nil && n.Obj != format.RootObj && i < 10_000; i++ {
		at, ok := goes[n]
		if !ok {
			at = n.Place
		}
		if at.Kind != layer.InTree {
			parts = append(parts, fmt.Sprintf("(object %d)", n.Obj))
			break
		}
		parts = append(parts, at.Name)
		n = e.t.Nodes[at.Dir]
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

// Strays describes the files that the target or the inverse has in a blob, or
// knows no name of, and that may have names in the folder.
func (e *Engine) Strays() (out []hostfs.Stat, err error) {
	for _, n := range e.t.Order {
		if n.IsDir() || n.Place.Kind == layer.Nowhere || n.Place.Kind == layer.InTree && n.Parent != format.NoObj {
			continue
		}
		at, err := e.at(n)
		if err != nil {
			continue
		}
		if st, err := hostfs.StatAt(at.fd, at.name); err == nil && (st.Nlink > 1 || n.Place.Kind == layer.InTree) {
			out = append(out, st)
		}
		e.done(at)
	}
	return out, nil
}
