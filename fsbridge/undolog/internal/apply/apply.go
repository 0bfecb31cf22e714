package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Env is what an apply needs of the log around it. Its functions may be called by
// several goroutines at once.
type Env struct {
	Root   *hostfs.Root // the working folder
	Lender *Lender
	// Volumes translates between inodes as the kernel names them and as they stand in the log.
	Volumes *format.Volumes
	Log     *slog.Logger
	// Relink is told before and after the log changes the ctime of an inode.
	Relink func(fd int, done bool) error
	// HashContent is the hash of a content, if ctimes alone do not tell of edits.
	HashContent func(dirfd int, name string, st *hostfs.Stat) uint64
	// NewContent makes what keeps contents of an object of the inverse, whose directory is dir.
	NewContent func(w *format.Writer, dir *store.StepDir, obj format.ObjID) *store.ContentWriter
	// Progress, if it is not nil, is told how much of the plan is carried out, in parts of
	// about the same size.
	Progress func(done, total int64)
	// StepBySeq returns where the directory of a closed step is, from the undo directory.
	StepBySeq func(seq uint64) (path string, ok bool)
}

// Engine makes the folder what one layer says. It works by the actual state
// and is used once; what it does it can do again after being killed anywhere. Its methods
// are for one goroutine.
type Engine struct {
	Env
	// Begun says that the directory rollback is there: from now on the folder may be changed,
	// and an interruption is completed by another engine. The caller sets it.
	Begun bool
	// Looking says that nothing will be done, and so no mode is lent.
	Looking bool
	// Forget says that there will be no inverse: what is replaced is not needed.
	Forget bool
	// Follow says that a directory that somebody outside has moved is looked for, and stays where it is.
	Follow bool
	// Inverse is the descriptor of the inverse's directory, -1: there is none yet.
	Inverse int
	// Sign is the sign of life of this apply, or nil.
	Sign *store.AliveSign
	// OfOpen says that it is a rollback of the step that is open, and nobody was killed.
	OfOpen bool
	// Foreign tells, of such a rollback and of an apply that goes on after an interruption, whether what is as the
	// stat says was changed by somebody else since; nil: nothing was.
	Foreign func(st *hostfs.Stat) bool
	// ForeignIDs are the inodes of which it said so. Decide finds them.
	ForeignIDs []hostfs.ID
	// Edits, if it is not nil, tells what would be overwritten by force.
	Edits Edits
	// EditedIDs are the inodes of which the content is left for that. Decide finds them.
	EditedIDs []hostfs.ID
	// Lost are the paths that can be neither found nor made. Decide finds them.
	Lost    []string
	notKept []string // paths of which the step did not keep the content
	spoilt  []bound  // what somebody wrote to in the log: it stays there
	// Looks is what was seen in directories that are done, Changes what bridges must forget
	// (everything, if there are more than [MaxChanges]), and Warnings what people should hear. Run
	// fills them.
	Looks    map[hostfs.ID]*store.Look
	Changes  []fsbridge.Change
	Warnings []string

	t      *layer.Layer
	home   string     // the layer's directory before the apply has begun, from the undo directory
	hold   int        // blobs of the inverse, where occupants are put
	made   int        // its file "made"
	madeMu sync.Mutex // so that its records are whole

	dirs      store.DirCache[dirKey]
	granted   map[format.ObjID]uint32
	held      map[format.ObjID]bool // is in the hold under its number
	strangers map[hostfs.ID]format.ObjID
	across    across
	left      left
	queue     []*layer.Node
	scanned   []*layer.Node // directories as they lie now, parents first
	missing   []*layer.Node
	moved     map[*layer.Node]movedDir
	final     []*layer.Node // directories of the final tree, parents first
	// sources are directories with a file that got a further name. overlayfs copies it up for that, and then gives the directory the
	// times that it had before: what a follower has set meanwhile is lost.
	sources []*layer.Node
	twice   []*layer.Node // made, and there, but a kill left them their name in the hold
	fresh   int
	parts   parts
	buf     []byte
}

// Layer is what is applied.
func (e *Engine) Layer() *layer.Layer { return e.t }

// New makes what applies the layer target, which it closes. home is where the
// directory of that layer is as long as the apply has not begun, from the undo directory.
func New(env Env, target *layer.Layer, home string) *Engine {
	e := &Engine{
		Env: env, t: target, home: home, hold: -1, Inverse: -1, made: -1,
		granted: map[format.ObjID]uint32{}, held: map[format.ObjID]bool{}, strangers: map[hostfs.ID]format.ObjID{},
		across: newAcross(), left: newLeft(), moved: map[*layer.Node]movedDir{},
		buf: make([]byte, 32<<10),
	}
	if target.Damage != nil {
		e.Warn("%v", target.Damage)
	}
	return e
}

// Warn adds to Warnings, which keep the first hundred, and logs.
func (e *Engine) Warn(format string, args ...any) {
	m := fmt.Sprintf(format, args...)
	if e.Log != nil {
		e.Log.Warn(m)
	}
	if len(e.Warnings) < 100 {
		e.Warnings = append(e.Warnings, m)
	}
}

// Close closes the layer and all descriptors.
func (e *Engine) Close() {
	e.Sign.Close()
	e.dirs.Close()
	e.t.Close()
	for _, fd := range []*int{&e.hold, &e.Inverse, &e.made} {
		if *fd >= 0 {
			_ = hostfs.Close(*fd)
			*fd = -1
		}
	}
}

// Decide finds out what there is to do. It changes nothing, save that an ordinary user's
// modes are lent.
func (e *Engine) Decide() error {
	if err := e.locate(); err != nil {
		return err
	}
	e.succeed()
	e.plan()
	e.leaveMoved()
	if err := e.leaveForeign(); err != nil {
		return err
	}
	e.leaveEdited()
	e.ask()
	return nil
}

// WhatIsLost tells of what can be neither found nor made.
func (e *Engine) WhatIsLost() string {
	return fmt.Sprintf("%d path(s) cannot be restored, the first is %q", len(e.Lost), e.Lost[0])
}

// WarnLost adds a warning if something is lost.
func (e *Engine) WarnLost() {
	if len(e.Lost) > 0 {
		e.Warn("%s", e.WhatIsLost())
	}
}

// plan decides which bindings are wrong. It changes nothing.
func (e *Engine) plan() {
	t := e.t
	for _, n := range e.missing {
		e.planMissing(n)
	}
	for _, d := range t.Order {
		for i := range t.Binds[d.Obj] {
			b := &t.Binds[d.Obj][i]
			if w := b.Want; w != nil && (w.Stays || w.Wanted) {
				w.Several = true // though it may have had one name when it was recorded
			}
			if w := b.Want; w != nil && b.OccNode == w {
				if w.Place.Kind == layer.InMade {
					e.twice = append(e.twice, w)
				}
				w.Stays = true // it may also be in a blob, or have a name that goes
				w.Place = layer.InDir(d.Obj, b.Name)
			} else if w != nil {
				w.Wanted = true
			}
		}
	}
	for _, d := range t.Order {
		here := d.Place.Kind != layer.Nowhere || (d.Wanted && t.Makeable(d))
		for i := range t.Binds[d.Obj] {
			b := &t.Binds[d.Obj][i]
			b.Wrong = here && b.OccNode != b.Want || here && b.Want == nil && b.Occ.Ino != 0
			if b.Wrong && b.Want != nil {
				b.Want.Goes = true
			}
			if w := b.Want; w != nil && b.OccNode != w && e.left.closed[d] == nil && (!here || w.Place.Kind == layer.Nowhere && !t.Makeable(w)) {
				e.lose(w, e.t.PathAtStart(d, b.Name))
				if t.Spoilt[w.Obj] {
					e.spoilt = append(e.spoilt, bound{d, b})
				}
			}
			if b.Wrong && b.OccNode != nil {
				b.OccNode.Occupies = true
			}
		}
	}
	for id := range t.Bad {
		if n := t.Nodes[id]; n != nil && n.Place.Kind != layer.Nowhere {
			e.lose(n, e.t.PathAtStart(t.Nodes[n.Parent], n.Name))
		}
	}
}

// lose notes a path that cannot be put back: the log has lost what was there, or the step did not keep it.
func (e *Engine) lose(n *layer.Node, path string) {
	if n.Lost {
		e.notKept = append(e.notKept, path)
	} else {
		e.Lost = append(e.Lost, path)
	}
}

// planMissing wants an object back that somebody outside took away, and of a directory what the step changed below it.
func (e *Engine) planMissing(n *layer.Node) {
	t := e.t
	d := t.Nodes[n.Parent]
	if n.Created || n.Place.Kind != layer.Nowhere || n.Missing {
		return
	}
	n.Missing = true
	for _, c := range t.Children[n.Obj] {
		e.planMissing(c)
	}
	if !t.Makeable(n) {
		e.Warn("%q is gone and was not kept", strings.TrimPrefix(e.path(d)+"/"+n.Name, "/"))
		return
	}
	b := layer.Bind{Name: n.Name, Want: n}
	if d.Place.Kind != layer.Nowhere {
		if at, err := e.dir(d); err == nil {
			if st, err := hostfs.StatAt(at.fd, n.Name); err == nil {
				b.Occ, b.OccMode = st.ID, st.Mode
				b.OccNode = t.Find(st.ID, st.Mode, nil)
			}
			e.done(at)
		}
	}
	at, _ := slices.BinarySearchFunc(t.Binds[d.Obj], b.Name, func(b layer.Bind, name string) int { return strings.Compare(b.Name, name) })
	t.Binds[d.Obj] = slices.Insert(t.Binds[d.Obj], at, b)
}

// NothingToDo tells whether the plan is empty.
func (e *Engine) NothingToDo() bool {
	for _, n := range e.t.Order {
		if n.Dirty && n.Place.Kind != layer.Nowhere {
			return false
		}
		for i := range e.t.Binds[n.Obj] {
			if e.t.Binds[n.Obj][i].Wrong {
				return false
			}
		}
	}
	return true
}

// Run carries the plan out.
func (e *Engine) Run(ctx context.Context) error {
	e.parts.total = e.countParts()
	for _, phase := range []struct {
		name string
		f    func(context.Context) error
	}{
		{"detach", e.detachAll}, {"make", e.makeAll}, {"attach", e.attachAll},
		{"content", e.contentAll}, {"metadata", e.metaAll},
	} {
		if err := phase.f(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return e.durable(e.Root.FD()) // what it was made of goes
}

// detachAll empties directories before it moves them.
func (e *Engine) detachAll(ctx context.Context) error {
	for _, d := range slices.Backward(e.scanned) {
		binds := e.t.Binds[d.Obj]
		for i := range binds {
			b := &binds[i]
			if !b.Wrong || b.Occ.Ino == 0 {
				continue
			}
			err := e.detachFrom(d, b)
			if err != nil && interrupts(err) {
				return fmt.Errorf("move %q away: %w", e.path(d)+"/"+b.Name, err)
			}
			if err != nil {
				e.leaveBind(d, b, e.reasonAt(d, b.Name, err))
			}
		}
	}
	return e.putBack()
}

func (e *Engine) detachFrom(d *layer.Node, b *layer.Bind) error {
	at, err := e.dir(d)
	if err != nil {
		return err
	}
	defer e.done(at)
	defer e.partDone()
	return e.detach(d, at.fd, b.Name, b)
}

// detach moves what is at name out of the tree and into the hold. b is the
// binding as planned, or nil if something unexpected is there.
func (e *Engine) detach(d *layer.Node, fd int, name string, b *layer.Bind) error {
	st, err := e.statAt(d, fd, name)
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	n, id := e.whose(b, st.ID)
	if err := e.point("apply.detach"); err != nil {
		return err
	}
	dir := st.IsDir()
	if !dir && st.Nlink > 1 {
		e.ChangedInode(st.ID)
	}
	unlink := func() error { return e.withAccess(d, func() error { return hostfs.UnlinkAt(fd, name) }) }
	if !dir && n != nil && e.elsewhere(n) {
		return unlink()
	}
	x, err := e.bucket(kindHold, 0, id, true)
	if err != nil {
		return err
	}
	defer e.done(x)
	to := x.name
	if e.held[id] {
		h, err := hostfs.StatAt(x.fd, to)
		switch {
		case err == nil && h.ID == st.ID && !dir:
			return unlink()
		case err == nil && e.across.copies[st.ID] == h.ID:
			if n != nil {
				n.Place = layer.Place{Kind: layer.InHold}
			}
			return e.withAccess(d, func() error { return e.removeKept(fd, name, x.fd) })
		case err == nil && h.Dev != st.Dev && !e.across.noted[h.ID]: // killed before it was complete
			if err := hostfs.RemoveAll(context.Background(), x.fd, to, nil); err != nil {
				return err
			}
		default:
			to = e.freshName(x.fd)
		}
	}
	err = e.move(d, fd, name, x.fd, to, &st)
	if errors.Is(err, posix.EXDEV) {
		if parked, err := e.park(d, fd, name, n, &st); parked || err != nil {
			e.tookAway(d, b, n, movedTo{name: parkName(id), parked: true}, err)
			return err
		}
		if e.Forget && (n == nil || !n.Goes) {
			return e.forget(d, fd, name, n)
		}
		err = e.moveByCopy(id, fd, name, x, to)
	}
	if err != nil {
		return err
	}
	if to == x.name {
		e.held[id] = true
	}
	if n != nil && to == x.name {
		n.Place = layer.Place{Kind: layer.InHold}
	}
	e.tookAway(d, b, n, movedTo{obj: id, name: to}, nil)
	return nil
}

// tookAway notes where what was at b of d is now, unless err says that it is not.
func (e *Engine) tookAway(d *layer.Node, b *layer.Bind, n *layer.Node, to movedTo, err error) {
	if b == nil || err != nil {
		return
	}
	to.d, to.n = d, n
	e.left.moved[b] = to
	if n != nil {
		e.left.origin[n] = bound{d, b}
	}
}

// whose returns the object that is at b and has the number id, or, of something unexpected
// (b may be nil), only an object number.
func (e *Engine) whose(b *layer.Bind, id hostfs.ID) (*layer.Node, format.ObjID) {
	if b != nil && b.OccNode != nil && b.Occ == id {
		return b.OccNode, b.OccNode.Obj
	}
	obj, known := e.strangers[id]
	if !known {
		obj = e.t.Next
		e.t.Next++
		e.strangers[id] = obj
	}
	return nil, obj
}

// elsewhere tells whether the file n, which is where something else should be, is or will be
// where it should be by another name.
func (e *Engine) elsewhere(n *layer.Node) bool {
	return n.Stays || n.Place.Kind == layer.InPark || n.Place.Kind == layer.InOwn && n.Wanted ||
		n.Place == layer.InDir(n.Parent, n.Name) && e.t.Bind(n.Parent, n.Name) == nil
}

func (e *Engine) freshName(fd int) string {
	for {
		e.fresh++
		name := fmt.Sprintf("x%d", e.fresh)
		if _, err := hostfs.StatAt(fd, name); err != nil {
			return name
		}
	}
}

// move renames what is in the directory d of the tree. It never replaces
// anything.
func (e *Engine) move(d *layer.Node, fd int, name string, toFD int, to string, st *hostfs.Stat) error {
	rename := func() error { return hostfs.RenameNew(fd, name, toFD, to) }
	err := e.withAccess(d, rename)
	if !errors.Is(err, posix.EACCES) || st == nil || !st.IsDir() {
		return err
	}
	was, given, err := hostfs.AllowAt(fd, name, 0o700, rename)
	switch {
	case !given:
		return err
	case err != nil:
		_ = hostfs.ChmodAt(fd, name, was)
		return err
	}
	return hostfs.ChmodAt(toFD, to, was)
}
