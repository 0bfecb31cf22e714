package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// What cannot be put back is left as it is, by name, and the rest is done: an apply is over when it has
// run. What the folder is seen to refuse is left before anything is changed (ask); what turns up
// later, when it does.

// left collects what an apply leaves. Its methods may be called by several goroutines.
type left struct {
	mu      sync.Mutex
	list    []format.Left
	said    map[string]bool // path and part
	binds   map[*layer.Bind]format.ObjID
	objects map[format.ObjID]bool
	// moved says where what was at a binding is since the detach phase.
	moved map[*layer.Bind]movedTo
	// origin is the binding that an object was taken from.
	origin map[*layer.Node]bound
	// of are the bindings of an object; nil: not looked for yet.
	of map[*layer.Node][]bound
	// closed are directories that cannot be looked into.
	closed map[*layer.Node]error
	// unmade are objects that could not be made.
	unmade map[format.ObjID]error
}

// movedTo is a place in the hold, or in the folder's root.
type movedTo struct {
	d      *layer.Node
	n      *layer.Node // nil: unknown to the layer
	obj    format.ObjID
	name   string
	parked bool
}

func newLeft() left {
	return left{said: map[string]bool{}, binds: map[*layer.Bind]format.ObjID{}, objects: map[format.ObjID]bool{},
		moved: map[*layer.Bind]movedTo{}, origin: map[*layer.Node]bound{}, unmade: map[format.ObjID]error{}, closed: map[*layer.Node]error{}}
}

// interrupts tells whether err ends the apply: it was stopped, or a test stops it. Anything else concerns
// one path.
func interrupts(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || fault.Injected(err)
}

// Left lists what was left, sorted by path.
func (e *Engine) Left() []format.Left {
	e.left.mu.Lock()
	defer e.left.mu.Unlock()
	slices.SortFunc(e.left.list, func(a, b format.Left) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.What, b.What))
	})
	return e.left.list
}

// Rest is what is to be kept of the layer so that what was left can be put back later; nil: nothing. What
// only belongs to somebody else is not kept: who applies this may never give it.
func (e *Engine) Rest() *store.Rest {
	e.left.mu.Lock()
	defer e.left.mu.Unlock()
	if len(e.left.binds) == 0 && len(e.left.objects) == 0 {
		return nil
	}
	r := &store.Rest{}
	for b, d := range e.left.binds {
		r.Binds = append(r.Binds, store.RestBind{Dir: d, Name: []byte(b.Name)})
		if n := e.t.Nodes[d]; n != nil && !n.Created { // its times
			e.left.objects[d] = true
		}
		if b.Want != nil {
			e.left.objects[b.Want.Obj] = true
		}
	}
	for id := range e.left.objects {
		r.Objects = append(r.Objects, id)
	}
	slices.Sort(r.Objects)
	slices.SortFunc(r.Binds, func(a, b store.RestBind) int {
		return cmp.Or(cmp.Compare(a.Dir, b.Dir), slices.Compare(a.Name, b.Name))
	})
	return r
}

// say lists a part of a path as left.
func (e *Engine) say(path, what, reason string) {
	e.sayLeft(format.Left{Path: path, What: what, Reason: reason})
}

func (e *Engine) sayLeft(x format.Left) {
	e.left.mu.Lock()
	defer e.left.mu.Unlock()
	if x.Path == "" {
		x.Path = "."
	}
	if key := x.Path + "\x00" + x.What; !e.left.said[key] {
		e.left.said[key] = true
		e.left.list = append(e.left.list, x)
		if e.Log != nil {
			e.Log.Debug("a path cannot be put back", "path", x.Path, "what", x.What, "reason", x.Reason)
		}
	}
}

// leaveBind leaves the binding b of d as it is, and whatever hangs on it: the object that it lacks stays where
// it is, and the one that is there is not put elsewhere. reason is said of the first only.
func (e *Engine) leaveBind(d *layer.Node, b *layer.Bind, reason string) {
	if _, done := e.left.binds[b]; done {
		return
	}
	e.left.binds[b] = d.Obj
	e.say(trimSlash("/"+joined(e.wanted(d), b.Name)), "path", reason)
	b.Wrong = false
	also := fmt.Sprintf("%q is in its place, or where it belongs: %s", b.Name, reason)
	for _, n := range []*layer.Node{b.Want, b.OccNode} {
		if n == nil {
			continue
		}
		for _, x := range e.bindsOf(n) {
			if _, done := e.left.binds[x.b]; !done && (x.b.Wrong || e.left.origin[n].b == x.b) {
				e.leaveBind(x.d, x.b, also)
			}
		}
	}
}

// bindsOf are the bindings that have n, or should have it. It is asked when the plan is made.
func (e *Engine) bindsOf(n *layer.Node) []bound {
	if e.left.of == nil {
		e.left.of = map[*layer.Node][]bound{}
		for _, d := range e.t.Order {
			binds := e.t.Binds[d.Obj]
			for i := range binds {
				b := &binds[i]
				if b.Want != nil {
					e.left.of[b.Want] = append(e.left.of[b.Want], bound{d, b})
				}
				if b.OccNode != nil && b.OccNode != b.Want {
					e.left.of[b.OccNode] = append(e.left.of[b.OccNode], bound{d, b})
				}
			}
		}
	}
	return e.left.of[n]
}

// leavePart leaves a part of the object n.
func (e *Engine) leavePart(n *layer.Node, what, reason string) {
	e.say(e.wanted(n), what, reason)
	if what == "times" || what == "owner" {
		return
	}
	e.left.mu.Lock()
	defer e.left.mu.Unlock()
	e.left.objects[n.Obj] = true
}

// leaveMeta leaves what err, of a try to set the metadata of n, says was refused.
func (e *Engine) leaveMeta(n *layer.Node, at entry, err error) {
	var r *layer.RefusedError
	if !errors.As(err, &r) {
		e.leavePart(n, "attributes", e.why(at, err))
		return
	}
	for _, p := range r.Parts {
		e.leavePart(n, p.What, e.why(at, p.Err))
	}
}

// wanted is the path that n had, and shall have.
func (e *Engine) wanted(n *layer.Node) string {
	if n.Created || n.Parent == format.NoObj {
		return strings.TrimPrefix(e.path(n), "/")
	}
	var parts []string
	for up := n; up != nil && up.Obj != format.RootObj && len(parts) <= len(e.t.Nodes); up = e.t.Nodes[up.Parent] {
		if m, ok := e.moved[up]; ok {
			parts = append(parts, m.path)
			break
		}
		parts = append(parts, up.Name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

func joined(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// putBack gives what was moved away from bindings that are left its names back.
func (e *Engine) putBack() error {
	for again := true; again; {
		again = false
		for b := range e.left.binds {
			m, ok := e.left.moved[b]
			if !ok {
				continue
			}
			delete(e.left.moved, b)
			again = true
			if err := e.putOneBack(b, m); err != nil {
				if interrupts(err) {
					return err
				}
				e.say(trimSlash("/"+joined(e.wanted(m.d), b.Name)), "path", "what was there is kept in the log, and could not be put back: "+err.Error())
			}
		}
	}
	return nil
}

func (e *Engine) putOneBack(b *layer.Bind, m movedTo) error {
	at, err := e.dir(m.d)
	if err != nil {
		return err
	}
	defer e.done(at)
	from := entry{fd: e.Root.FD(), name: m.name}
	n := m.n
	if !m.parked {
		if from, err = e.bucket(kindHold, 0, m.obj, false); err != nil {
			return err
		}
		defer e.done(from)
		from.name = m.name
	}
	if n == nil {
		n = &layer.Node{Object: &format.Object{Obj: m.obj, Created: true}, Type: b.OccMode & posix.S_IFMT, Place: layer.Place{Kind: layer.InHold}}
	}
	if err := e.withAccess(m.d, func() error { return e.put(n, m.d, from, at.fd, b.Name) }); err != nil {
		return err
	}
	if m.n != nil {
		m.n.Place = layer.InDir(m.d.Obj, b.Name)
	}
	return nil
}

// why says in words what hinders, if it can be seen, and else what err says. at is what err is about.
func (e *Engine) why(at entry, err error) string {
	switch {
	case errors.Is(err, posix.ENOSPC):
		return "there is no space left on its file system"
	case errors.Is(err, posix.EDQUOT):
		return "the quota of its owner is used up"
	case errors.Is(err, errOpenForWriting):
		return errOpenForWriting.Error()
	case errors.Is(err, posix.ETXTBSY):
		return "it is a program that runs"
	}
	for _, refusal := range []error{posix.EPERM, posix.EACCES, posix.EROFS} {
		if s := hindrance(at); s != "" && errors.Is(err, refusal) {
			return s
		}
	}
	var errno posix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// hindrance says what hinders a change of what is at a place; "": nothing that can be seen. Without a name it is
// about a name that is missing, and with "." about the open directory itself.
func hindrance(at entry) string {
	if at.fd < 0 {
		return ""
	}
	if at.name != "" {
		if s := holds(at.fd, at.name, true); s != "" || at.name == "." {
			return s
		}
	}
	return holds(at.fd, "", false)
}

// holds looks at name below fd, or at the directory fd itself; own: it is what shall be changed.
func holds(fd int, name string, own bool) string {
	it := "its directory"
	if own {
		it = "it"
	}
	uid, attributes, err := attributesOf(fd, name)
	if err != nil {
		return ""
	}
	switch {
	case attributes&posix.STATX_ATTR_IMMUTABLE != 0:
		return it + " is immutable (chattr -i lifts that)"
	case attributes&posix.STATX_ATTR_APPEND != 0:
		return it + " is append-only (chattr -a lifts that)"
	}
	var fs posix.Statfs_t
	if posix.Fstatfs(fd, &fs) == nil && fs.Flags&posix.ST_RDONLY != 0 {
		return it + " is on a file system, or in a mount, that is read-only"
	}
	if me := posix.Geteuid(); me != 0 && int(uid) != me {
		return fmt.Sprintf("%s belongs to another user (uid %d)", it, uid)
	}
	return ""
}

// reasonAt is why for name in the directory d.
func (e *Engine) reasonAt(d *layer.Node, name string, err error) string {
	at, derr := e.dir(d)
	if derr != nil {
		return e.why(entry{fd: -1}, err)
	}
	defer e.done(at)
	at.name = name
	return e.why(at, err)
}

// leaveContent leaves the content of n, and with it what else tells of it: its times would lie.
func (e *Engine) leaveContent(n *layer.Node, err error) {
	at, aerr := e.at(n)
	if aerr != nil {
		at = entry{fd: -1}
	}
	defer e.done(at)
	e.leavePart(n, "content", e.why(at, err))
	n.Content, n.Dirty = false, false
}

// unmake notes that n could not be made.
func (e *Engine) unmake(n *layer.Node, err error) {
	e.left.mu.Lock()
	defer e.left.mu.Unlock()
	e.left.unmade[n.Obj] = err
}
