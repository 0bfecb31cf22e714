package undolog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// applyEnv is what an apply needs of the log around it. Its functions may be called by
// several goroutines at once.
type applyEnv struct {
	root   *hostfs.Root // the working folder
	lender *lender
	log    *slog.Logger
	// relink is told before and after the log changes the ctime of an inode.
	relink func(st *hostfs.Stat, done bool) error
	// hashContent is the hash of a content, if ctimes alone do not tell of edits.
	hashContent func(n *seenName) uint64
	newContent  func(w *journal.Writer, dir *store.StepDir, obj journal.ObjID) *store.ContentWriter
	// stepBySeq returns where the directory of a closed step is, from the undo directory.
	stepBySeq func(seq uint64) (path string, ok bool)
}

// engine makes the tree what one target says. It works by the actual state
// and is used once; what it does it can do again after being killed anywhere.
type engine struct {
	applyEnv
	t    *layer
	hold int // blobs of the inverse, where occupants are put
	// inverse is the directory of the inverse; made is its file "made".
	inverse int
	made    int
	madeMu  sync.Mutex // so that its records are whole

	home  string // the target's directory, from the undo directory
	begun bool   // the directory rollback is there

	dirs      dirCache
	granted   map[journal.ObjID]uint32
	held      map[journal.ObjID]bool // is in the hold under its number
	strangers map[hostfs.ID]journal.ObjID
	across    across
	queue     []*node
	scanned   []*node // directories as they lie now, parents first
	missing   []*node
	final     []*node  // directories of the final tree, parents first
	twice     []*node  // made, and there, but a kill left them their name in the hold
	lost      []string // what can be neither found nor made
	fresh     int
	buf       []byte
	looks     map[hostfs.ID]*look // what was seen in directories that are done

	warnings []string
	changes  []fsbridge.Change
}

// newEngine makes what applies the layer target, which it closes. home is where the
// directory of that layer is as long as the apply has not begun, from the undo directory.
func newEngine(env applyEnv, target *layer, home string) *engine {
	e := &engine{
		applyEnv: env, t: target, home: home, hold: -1, inverse: -1, made: -1,
		granted: map[journal.ObjID]uint32{}, held: map[journal.ObjID]bool{}, strangers: map[hostfs.ID]journal.ObjID{},
		across: across{copies: map[hostfs.ID]hostfs.ID{}, noted: map[hostfs.ID]bool{}, at: map[hostfs.ID]location{}},
		buf:    make([]byte, 32<<10),
	}
	if target.damage != nil {
		e.warn("%v", target.damage)
	}
	return e
}

func (e *engine) warn(format string, args ...any) {
	m := fmt.Sprintf(format, args...)
	if e.log != nil {
		e.log.Warn(m)
	}
	if len(e.warnings) < 100 {
		e.warnings = append(e.warnings, m)
	}
}

func (e *engine) close() {
	e.dirs.closeAll()
	e.t.close()
	for _, fd := range []*int{&e.hold, &e.inverse, &e.made} {
		if *fd >= 0 {
			_ = hostfs.Close(*fd)
			*fd = -1
		}
	}
}

// decide finds out what there is to do. It changes nothing, save that an ordinary user's
// modes are lent.
func (e *engine) decide() error {
	if err := e.locate(); err != nil {
		return err
	}
	e.plan()
	return nil
}

// whatIsLost tells of what can be neither found nor made.
func (e *engine) whatIsLost() string {
	return fmt.Sprintf("%d path(s) cannot be restored, the first is %q", len(e.lost), e.lost[0])
}

func (e *engine) warnLost() {
	if len(e.lost) > 0 {
		e.warn("%s", e.whatIsLost())
	}
}

// plan decides which bindings are wrong. It changes nothing.
func (e *engine) plan() {
	t := e.t
	for _, n := range e.missing {
		e.planMissing(n)
	}
	for _, d := range t.order {
		for i := range t.binds[d.Obj] {
			b := &t.binds[d.Obj][i]
			if w := b.want; w != nil && b.occNode == w {
				if w.place.kind == inMade {
					e.twice = append(e.twice, w)
				}
				w.stays = true // it may also be in a blob, or have a name that goes
				w.place = place{inTree, d.Obj, b.name}
			} else if w != nil {
				w.wanted = true
			}
		}
	}
	for _, d := range t.order {
		here := d.place.kind != nowhere || (d.wanted && t.makeable(d))
		for i := range t.binds[d.Obj] {
			b := &t.binds[d.Obj][i]
			b.wrong = here && b.occNode != b.want || here && b.want == nil && b.occ.Ino != 0
			if b.wrong && b.want != nil {
				b.want.goes = true
			}
			if w := b.want; w != nil && b.occNode != w && (!here || w.place.kind == nowhere && !t.makeable(w)) {
				e.lost = append(e.lost, e.path(d)+"/"+b.name)
			}
			if b.wrong && b.occNode != nil {
				b.occNode.occupies = true
			}
		}
	}
}

// planMissing wants an object back that somebody outside took away.
func (e *engine) planMissing(n *node) {
	t := e.t
	d := t.nodes[n.Parent]
	if n.Created || n.place.kind != nowhere {
		return
	}
	if !t.makeable(n) {
		e.warn("%q is gone and was not kept", strings.TrimPrefix(e.path(d)+"/"+n.Name, "/"))
		return
	}
	b := bind{name: n.Name, want: n}
	if d.place.kind != nowhere {
		if at, err := e.dir(d); err == nil {
			if st, err := hostfs.StatAt(at.fd, n.Name); err == nil {
				b.occ, b.occMode = st.ID, st.Mode
				b.occNode = t.find(st.ID, st.Mode, nil)
			}
			e.done(at)
		}
	}
	at, _ := slices.BinarySearchFunc(t.binds[d.Obj], b.name, func(b bind, name string) int { return strings.Compare(b.name, name) })
	t.binds[d.Obj] = slices.Insert(t.binds[d.Obj], at, b)
}

// nothingToDo tells whether the plan is empty.
func (e *engine) nothingToDo() bool {
	for _, n := range e.t.order {
		if n.dirty && n.place.kind != nowhere {
			return false
		}
		for i := range e.t.binds[n.Obj] {
			if e.t.binds[n.Obj][i].wrong {
				return false
			}
		}
	}
	return true
}

// run carries the plan out.
func (e *engine) run(ctx context.Context) error {
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
	return nil
}

// detachAll empties directories before it moves them.
func (e *engine) detachAll(ctx context.Context) error {
	for _, d := range slices.Backward(e.scanned) {
		binds := e.t.binds[d.Obj]
		for i := range binds {
			b := &binds[i]
			if !b.wrong || b.occ.Ino == 0 {
				continue
			}
			if err := e.detachFrom(d, b); err != nil {
				return fmt.Errorf("move %q away: %w", e.path(d)+"/"+b.name, err)
			}
		}
	}
	return nil
}

func (e *engine) detachFrom(d *node, b *bind) error {
	at, err := e.dir(d)
	if err != nil {
		return err
	}
	defer e.done(at)
	return e.detach(d, at.fd, b.name, b)
}

// detach moves what is at name out of the tree and into the hold. b is the
// binding as planned, or nil if something unexpected is there.
func (e *engine) detach(d *node, fd int, name string, b *bind) error {
	st, err := e.statAt(d, fd, name)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	var n *node
	id, known := e.strangers[st.ID]
	if b != nil && b.occNode != nil && b.occ == st.ID {
		n, id, known = b.occNode, b.occNode.Obj, true
	}
	if !known {
		id = e.t.next
		e.t.next++
		e.strangers[st.ID] = id
	}
	if err := fault.Point("apply.detach"); err != nil {
		return err
	}
	dir := st.IsDir()
	if !dir && st.Nlink > 1 {
		e.changedInode(st.ID)
	}
	unlink := func() error { return e.withAccess(d, func() error { return hostfs.UnlinkAt(fd, name) }) }
	if !dir && n != nil && (n.stays || n.place.kind == inPark || n.place.kind == inOwn && n.wanted ||
		n.place == place{inTree, n.Parent, n.Name} && e.t.bind(n.Parent, n.Name) == nil) {
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
		case err == nil && !dir && e.across.copies[st.ID] == h.ID:
			if err := e.noteLast(id, &st, h.ID); err != nil {
				return err
			}
			return unlink()
		case err == nil && h.Dev != st.Dev && !e.across.noted[h.ID]: // killed before it was complete
			if err := hostfs.RemoveAll(context.Background(), x.fd, to, nil); err != nil {
				return err
			}
		default:
			if to, err = e.freshName(x.fd); err != nil {
				return err
			}
		}
	}
	err = e.move(d, fd, name, x.fd, to, &st)
	if errors.Is(err, syscall.EXDEV) {
		if parked, err := e.park(d, fd, name, n, &st); parked || err != nil {
			return err
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
		n.place = place{kind: inHold}
	}
	return nil
}

func (e *engine) freshName(fd int) (string, error) {
	for {
		e.fresh++
		name := fmt.Sprintf("x%d", e.fresh)
		if _, err := hostfs.StatAt(fd, name); err != nil {
			return name, nil
		}
	}
}

// move renames what is in the directory d of the tree. It never replaces
// anything.
func (e *engine) move(d *node, fd int, name string, toFD int, to string, st *hostfs.Stat) error {
	rename := func() error { return hostfs.RenameNew(fd, name, toFD, to) }
	err := e.withAccess(d, rename)
	if !errors.Is(err, syscall.EACCES) || st == nil || !st.IsDir() {
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
