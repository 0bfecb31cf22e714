package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// taskKind says what an apply is part of.
type taskKind string

const (
	taskUndo    taskKind = "undo"
	taskRedo    taskKind = "redo"
	taskAbort   taskKind = "abort"   // of the open step; it leaves no inverse
	taskRestore taskKind = "restore" // rollback/target, the inverse becomes step New
)

// task is the file "plan" in the directory rollback: what is being done.
// The directory appears, complete with the inverse, before anything is changed
// in the working folder, and goes when all is done.
type task struct {
	Kind taskKind `json:"kind"`
	Step StepID   `json:"step"`
	Name string   `json:"name"` // of the step directory
	Tick uint64   `json:"tick"`
}

const (
	rollbackName = "rollback"
	rollbackNew  = "rollback.new" // below wal
)

// outcome is what an apply did.
type outcome struct {
	step     stepRecord
	changes  fsbridge.Changes
	paths    []Affected
	count    int
	restored int
	warnings []string
}

// Abort rolls the open step back. It leaves no history entry and nothing to
// redo. Without an open step it does nothing. After an error the step is still
// there, for Recover.
func (l *Log) Abort(ctx context.Context) (*ApplyResult, error) {
	l.takeOpen()
	defer l.still()()
	_, before, err := l.resumeTask(ctx)
	if err != nil {
		return l.interrupted(nil), err
	}
	out, err := l.rollBackOpen(ctx)
	res := &ApplyResult{}
	if err != nil {
		l.interrupted(res)
	} else if out != nil {
		res = out.result()
	}
	if before != nil {
		res.Changes = before.changes
	}
	return res, err
}

func (o *outcome) result() *ApplyResult {
	return &ApplyResult{Paths: o.paths, PathCount: o.count, Changes: o.changes, Warnings: o.warnings}
}

// rollBackOpen rolls wal/in_progress back; nil says that there is none.
func (l *Log) rollBackOpen(ctx context.Context) (*outcome, error) {
	if ok, err := l.exists("wal", walName); err != nil || !ok {
		return nil, err
	}
	return l.apply(ctx, task{Kind: taskAbort, Name: walName}, true)
}

// exists tells whether name is below the directory parent of the log.
func (l *Log) exists(parent, name string) (bool, error) {
	fd, err := hostfs.OpenDirPathAt(l.dir.FD(), parent)
	if err != nil {
		return false, err
	}
	defer hostfs.Close(fd)
	if _, err = hostfs.StatAt(fd, name); errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// openTask opens the step directory that a task applies.
func (l *Log) openTask(t task) (*stepDir, error) {
	parent, name := t.target()
	if parent == "" {
		return nil, fmt.Errorf("%w: unknown task %q", ErrDamaged, t.Kind)
	}
	return l.openNamed(parent, name)
}

// target returns where the step directory is that a task applies.
func (t *task) target() (parent, name string) {
	switch t.Kind {
	case taskUndo:
		return "steps", t.Name
	case taskRedo:
		return "redo", t.Name
	case taskAbort:
		return "wal", walName
	case taskRestore:
		return rollbackName, "target"
	}
	return "", ""
}

// apply carries a task out from its beginning. When it fails before the first
// change nothing has happened; later, the directory rollback is left and
// resume goes on.
func (l *Log) apply(ctx context.Context, t task, force bool) (*outcome, error) {
	dir, err := l.openTask(t)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	return l.applyDir(ctx, dir, t, force, nil)
}

// applyDir is apply for an open directory. prepare, if not nil, is called with
// the directory that becomes rollback.
func (l *Log) applyDir(ctx context.Context, dir *stepDir, t task, force bool, prepare func(fd int) error) (*outcome, error) {
	e, err := l.newEngine(dir, t, force)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := l.discardNew(); err != nil {
		return nil, err
	}
	if err := e.locate(); err != nil {
		e.ungrant()
		return nil, err
	}
	e.plan()
	if len(e.lost) > 0 {
		if !force {
			e.ungrant()
			return nil, fmt.Errorf("%w: %d path(s) cannot be restored, the first is %q", ErrDamaged, len(e.lost), e.lost[0])
		}
		e.warn("%d path(s) cannot be restored, the first is %q", len(e.lost), e.lost[0])
	}
	if err := l.prepare(e, dir, &t, prepare); err != nil {
		e.ungrant()
		return nil, err
	}
	return l.carryOut(ctx, e, dir, t)
}

// loadLayer reads a step directory back. With force, and always if the step is open, it
// takes what there is.
func (l *Log) loadLayer(dir *stepDir, open, force bool) (*layer, error) {
	return loadLayer(dir, loadOptions{open: open, force: force, renumbered: l.renumberFor})
}

// newEngine makes what applies the step directory dir.
func (l *Log) newEngine(dir *stepDir, t task, force bool) (*engine, error) {
	target, err := l.loadLayer(dir, t.Kind == taskAbort, force)
	if err != nil {
		return nil, err
	}
	e := &engine{
		root: l.root, t: target, hold: -1, inverse: -1, made: -1,
		openOlder: l.openOlderBlobs, l: l, log: l.log,
		granted: map[objID]uint32{}, held: map[objID]bool{}, strangers: map[hostfs.ID]objID{},
		across: across{copies: map[hostfs.ID]hostfs.ID{}, noted: map[hostfs.ID]bool{}, at: map[hostfs.ID]location{}},
		buf:    make([]byte, 32<<10),
	}
	parent, name := t.target()
	if e.home = parent + "/" + name; t.Kind == taskRestore {
		e.home = "wal/" + rollbackNew + "/" + name // where it is until the apply has begun
	}
	if target.damage != nil {
		e.warn("%v", target.damage)
	}
	return e, nil
}

// openOlderBlobs opens the blobs of the step with the given seq.
func (l *Log) openOlderBlobs(seq uint64) (int, error) {
	for _, s := range l.stepEntries() {
		if s.Seq != seq {
			continue
		}
		dir, err := l.openStepEntry(s)
		if err != nil {
			return -1, err
		}
		defer dir.close()
		return hostfs.OpenDirPathAt(dir.fd, "blobs")
	}
	return -1, unix.ENOENT
}

// prepare makes the directory rollback, complete, by one rename.
func (l *Log) prepare(e *engine, dir *stepDir, t *task, more func(fd int) error) error {
	wal, err := hostfs.OpenDirPathAt(l.dir.FD(), "wal")
	if err != nil {
		return err
	}
	defer hostfs.Close(wal)
	fd, err := hostfs.OpenSubdir(wal, rollbackNew, true)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if t.Tick, err = l.ids.nextSeq(); err != nil {
		return err
	}
	inv, err := hostfs.OpenSubdir(fd, "inverse", true)
	if err != nil {
		return err
	}
	e.inverse = inv
	if e.hold, err = hostfs.OpenSubdir(inv, "blobs", true); err != nil {
		return err
	}
	if e.made, err = hostfs.OpenAt(inv, "made", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, 0o600); err != nil {
		return err
	}
	if t.Kind != taskAbort {
		if err := l.prepareInverse(e, dir, t); err != nil {
			return err
		}
	}
	if more != nil {
		if err := more(inv); err != nil {
			return err
		}
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := writeFile(fd, "plan", b); err != nil {
		return err
	}
	if err := fault.Point("rollback.begin"); err != nil {
		return err
	}
	err = hostfs.RenameAt(wal, rollbackNew, l.dir.FD(), rollbackName, 0)
	e.begun = err == nil
	return err
}

// discardNew throws away what an apply left that never began.
func (l *Log) discardNew() error {
	wal, err := hostfs.OpenDirPathAt(l.dir.FD(), "wal")
	if err != nil {
		return err
	}
	defer hostfs.Close(wal)
	return l.discardDir(wal, rollbackNew)
}

// prepareInverse fills the inverse's directory.
func (l *Log) prepareInverse(e *engine, dir *stepDir, t *task) error {
	step := e.t.rec.Step
	step.Tick = t.Tick
	v := newStepDir(e.inverse)
	defer func() { // the descriptor is the engine's
		v.fd = -1
		_ = v.close()
	}()
	if err := e.writeInverse(v, step, l.o.Durability == DurabilityPower); err != nil {
		return fmt.Errorf("keep what is replaced: %w", err)
	}
	if t.Kind == taskRestore {
		return nil
	}
	for _, name := range []string{"summary.json", "paths"} {
		err := hostfs.LinkAt(dir.fd, name, e.inverse, name)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// carryOut changes the working folder and finishes the task.
func (l *Log) carryOut(ctx context.Context, e *engine, dir *stepDir, t task) (*outcome, error) {
	l.beginApply()
	replaced := e.readInverse(t)
	err := e.run(context.WithoutCancel(ctx))
	inverse, ierr := replaced()
	if err != nil {
		l.held.forget()
		return nil, fmt.Errorf("interrupted, and will be completed by a recovery: %w", err)
	}
	l.held.recount(l.dir.FD(), e.changedInode)
	out := &outcome{step: e.t.rec.Step, restored: e.restored, warnings: e.warnings}
	if out.changes = (fsbridge.Changes{List: e.changes}); len(e.changes) > maxChanges {
		out.changes = fsbridge.Changes{All: true}
	}
	if t.Kind == taskUndo || t.Kind == taskRedo {
		var list ApplyResult
		entry := loadEntry(dir, t.Step)
		if err := list.addPaths(dir.fd, entry.AffectedCount); err != nil {
			e.warn("paths of step %d: %v", t.Step, err)
		}
		out.paths, out.count = list.Paths, list.PathCount
	} else {
		out.paths, out.count = e.affected()
	}
	made, err := readMade(e.inverse)
	if err != nil {
		return nil, err
	}
	if err := l.appendRemap(e.t.rec.Step.born(), t.Tick, made); err != nil {
		return nil, err
	}
	if err := errors.Join(ierr, l.settled(e, inverse, made)); err != nil {
		l.log.Error("barriers will be missed", "step_id", t.Step, "err", err)
	}
	roll, err := hostfs.OpenDirPathAt(l.dir.FD(), rollbackName)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(roll)
	if err := writeFile(roll, "applied", nil); err != nil {
		return nil, err
	}
	if err := l.finish(roll, t); err != nil {
		return nil, err
	}
	return out, nil
}

// readInverse reads what the complete inverse names while the folder is being
// changed. The function that it returns waits for that; an abort gives nil.
func (e *engine) readInverse(t task) (wait func() (*touched, error)) {
	if t.Kind == taskAbort {
		return func() (*touched, error) { return nil, nil }
	}
	var read *touched
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		read, err = touchedBy(e.inverse)
	}()
	return func() (*touched, error) { <-done; return read, err }
}

// settled takes the stamps of what the folder is like now. It comes before the
// task is over, so that a kill in between does not leave stale ones.
func (l *Log) settled(e *engine, inverse *touched, made []madeRecord) error {
	numbers := make(map[hostfs.ID]hostfs.ID, len(made))
	for _, m := range slices.Backward(made) { // what was copied out and in again has two
		if m.shared {
			continue
		}
		if last, ok := numbers[m.new]; ok {
			m.new = last
		}
		numbers[m.old] = m.new
	}
	return l.restamp(e, inverse, numbers)
}

// strays describes the files that the target or the inverse has in a blob, or
// knows no name of, and that may have names in the folder.
func (e *engine) strays() (out []hostfs.Stat, err error) {
	for _, n := range e.t.order {
		if n.isDir() || n.place.kind == nowhere || n.place.kind == inTree && n.Parent != noObj {
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

// crossed drops the barriers that the undo of a step, the directory name of which
// is below redo/ now, went across. It may be called again.
func (l *Log) crossed(name string) error {
	l.setEntries(slices.DeleteFunc(l.stepEntries(), func(e *stepEntry) bool { return e.name == name }), l.redoEntries())
	if len(l.barriers()) == 0 {
		return nil
	}
	over := map[string]bool{}
	dir, err := l.openNamed("redo", name)
	if err == nil {
		err = readPaths(dir.fd, func(a Affected) error { over[a.Path] = true; return nil })
		_ = dir.close()
	}
	return errors.Join(err, l.undone(func(p string) bool { return over[p] }))
}

// crossing returns the barriers that stand in the way.
func (l *Log) crossing(ctx context.Context, chosen []*stepEntry, kind taskKind) ([]Barrier, error) {
	if kind == taskUndo {
		newest := slices.Clone(chosen)
		slices.Reverse(newest)
		return l.checkBarriers(ctx, newest)
	}
	return l.checkRedo(ctx, chosen)
}
