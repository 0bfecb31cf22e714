package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/stamps"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Undo, redo, abort and restore are one thing: they apply a step directory to the folder
// and keep what they replace. transact is that thing from its beginning to its end, and
// resume is its second half, for one that was interrupted.

// taskKind says what an apply is part of.
type taskKind string

const (
	taskUndo    taskKind = "undo"
	taskRedo    taskKind = "redo"
	taskAbort   taskKind = "abort"   // of the open step; it leaves no inverse
	taskRecover taskKind = "recover" // of the open step; the inverse can be redone
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

// route says where the directories of a task are.
type route struct {
	parent, name string // the step directory that is applied; it goes when all is done
	home         string // the path of that directory before the task has begun
	to           string // where the inverse becomes the directory task.Name; "": it goes, too
}

// route trusts nothing in t.
func (t *task) route() (route, error) {
	if t.Kind == taskAbort {
		if t.Name != store.OpenName {
			return route{}, fmt.Errorf("%w: rollback plan names %q", ErrDamaged, t.Name)
		}
		return route{"wal", t.Name, "wal/" + t.Name, ""}, nil
	}
	if _, err := store.ParseStepID(t.Name); err != nil {
		return route{}, fmt.Errorf("%w: rollback plan: %w", ErrDamaged, err)
	}
	switch t.Kind {
	case taskUndo:
		return route{"steps", t.Name, "steps/" + t.Name, "redo"}, nil
	case taskRedo:
		return route{"redo", t.Name, "redo/" + t.Name, "steps"}, nil
	case taskRecover:
		return route{"wal", store.OpenName, "wal/" + store.OpenName, "redo"}, nil
	case taskRestore:
		return route{rollbackName, "target", "wal/" + rollbackNew + "/target", "steps"}, nil
	}
	return route{}, fmt.Errorf("%w: unknown task %q", ErrDamaged, t.Kind)
}

// openTask opens the step directory that a task applies.
func (l *Log) openTask(t task) (*store.StepDir, error) {
	r, err := t.route()
	if err != nil {
		return nil, err
	}
	return l.at.OpenStep(r.parent, r.name)
}

// outcome is what a task did.
type outcome struct {
	step     format.Step
	changes  fsbridge.Changes
	paths    []Affected
	count    int
	warnings []string
	left     []Left // what could not be done
	nothing  bool   // nor anything else, so that nothing has begun
}

func (o *outcome) result() *ApplyResult {
	r := &ApplyResult{Paths: o.paths, PathCount: o.count, Changes: o.changes, Warnings: o.warnings}
	r.addLeft(o.left)
	return r
}

// finished is a task that was interrupted and is complete now. Nobody was told what it
// did before it was interrupted, so that everything may have changed.
type finished struct {
	task
	*outcome
	together *together // nil: it was one step
}

// completeFirst completes what was interrupted, which f is told of (nil: nothing was), and
// then calls f. Undo, redo, abort, restore and recovery all begin so. The result is never
// nil. It says that everything may have changed if something was completed, or if the call
// ended in the middle.
func (l *Log) completeFirst(ctx context.Context, f func(before *finished, res *ApplyResult) error) (*ApplyResult, error) {
	res := &ApplyResult{}
	if err := l.wake(); err != nil {
		return res, err
	}
	before, err := l.resume(ctx)
	if err == nil {
		before, err = l.resumeTogether(ctx, before)
	}
	if err == nil {
		err = f(before, res)
	}
	if before != nil || err != nil && l.rollingBack() {
		res.Changes = fsbridge.Changes{All: true}
	}
	return res, err
}

// whole makes nothing of the result of a call that failed and has nothing to tell.
func whole(res *ApplyResult, err error) (*ApplyResult, error) {
	res.tellCrossed()
	if err != nil && len(res.Steps) == 0 && !res.Changes.All {
		return nil, err
	}
	return res, err
}

// transactOptions say more about a task.
type transactOptions struct {
	force bool
	// foreign tells what somebody else has changed while the step was open that is rolled back; nil: nothing.
	foreign func(st *hostfs.Stat) bool
	// progress, if it is not nil, is told how much of the plan is carried out.
	progress Progress
	// read is the step directory of the task, if it is being read already. The caller closes both.
	read *layer.Reading
	// admit is called when the plan is made and nothing is changed. False ends the task.
	admit func(e *apply.Engine) (bool, error)
	// fill adds to the directory of the inverse, which is behind fd.
	fill func(e *apply.Engine, fd int) error
}

// transact carries a task out. When it fails before the first change nothing has
// happened; later, the directory rollback is left and resume goes on. Without an error it
// returns nil only if admit ended the task.
func (l *Log) transact(ctx context.Context, t task, o transactOptions) (out *outcome, err error) {
	first := true
	err = l.within(ctx, func() error {
		again := !first
		first = false
		switch {
		case again && l.interrupted():
			f, err := l.resume(ctx)
			if f != nil {
				out = f.outcome
			}
			return err
		case again && t.Kind == taskRestore: // the target is gone
			return posix.ENOSPC
		case again:
			o.read = nil
		}
		out, err = l.transactOnce(ctx, t, o)
		return err
	})
	return out, err
}

// transactOnce is transact for a disk that has room.
func (l *Log) transactOnce(ctx context.Context, t task, o transactOptions) (*outcome, error) {
	if o.read == nil {
		dir, err := l.openTask(t)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		o.read = layer.Read(dir)
	}
	e, err := l.newEngine(o.read, t, o.force)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	e.Progress = o.progress
	e.Foreign, e.OfOpen = o.foreign, o.foreign != nil
	l.mindEdits(e, t, o.force)
	if t.Kind != taskRestore { // of which the target is there
		if err := l.discardNew(); err != nil {
			return nil, err
		}
	}
	admitted, err := l.begin(e, &t, o)
	if err == nil && !e.Begun && !admitted && hopeless(e, t, o.force) {
		e.Ungrant()
		return l.nothingDone(e, t), nil
	}
	if !e.Begun {
		e.Ungrant()
	}
	if err != nil && !e.Begun {
		err = errors.Join(err, l.discardFailed(ctx, err))
	}
	if err != nil || !admitted {
		return nil, err
	}
	return l.carryOut(ctx, e, o.read.Dir, t)
}

// begin plans the task, and makes the directory rollback unless admit ends it.
func (l *Log) begin(e *apply.Engine, t *task, o transactOptions) (bool, error) {
	if err := e.Decide(); err != nil {
		return false, err
	}
	if len(e.Lost) > 0 && !o.force {
		return false, fmt.Errorf("%w: %s", ErrDamaged, e.WhatIsLost())
	}
	if hopeless(e, *t, o.force) {
		return false, nil
	}
	if o.admit != nil {
		if ok, err := o.admit(e); !ok || err != nil {
			return false, err
		}
	}
	e.WarnLost()
	return true, l.prepare(e, o, t)
}

// resume finishes a task that was interrupted. It returns nil if there is none.
func (l *Log) resume(ctx context.Context) (*finished, error) {
	if l.interrupted() && l.reserve.Scarce() {
		l.makeRoom(ctx)
	}
	if err := l.lender().TakeBack(); err != nil {
		return nil, err
	}
	roll, err := hostfs.OpenDirAt(l.dir.FD(), rollbackName)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(roll)
	all := fsbridge.Changes{All: true}
	f := &finished{outcome: &outcome{changes: all}}
	if f.task, err = readPlan(roll); err != nil {
		return nil, err
	}
	if _, err := hostfs.StatAt(roll, "applied"); err == nil {
		return f, l.finish(roll, f.task)
	}
	dir, err := l.openTask(f.task)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	e, err := l.newEngine(layer.Read(dir), f.task, true)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if err := e.Reopen(roll, f.Kind != taskAbort); err != nil {
		return nil, err
	}
	if err := l.decideAgain(e, roll); err != nil {
		return nil, err
	}
	e.WarnLost()
	if f.outcome, err = l.carryOut(ctx, e, dir, f.task); err == nil {
		f.changes = all
	}
	return f, err
}

// readPlan reads what the transaction in the directory behind roll is.
func readPlan(roll int) (t task, err error) {
	b, err := hostfs.ReadSmall(roll, "plan", 1<<20)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		err = fmt.Errorf("%w: rollback plan: %w", ErrDamaged, err)
	}
	return t, err
}

// loadLayer reads a step directory back. With force, and always if the step is open, it
// takes what there is.
func (l *Log) loadLayer(read *layer.Reading, open, force bool) (*layer.Layer, error) {
	return layer.Load(read, layer.Options{Open: open, Force: force, Renumbered: l.renumbered.Since})
}

func (l *Log) lender() *apply.Lender {
	return &apply.Lender{Root: l.root, Dir: l.dir, Volumes: l.volumes, Wal: l.at.Wal, Before: rollbackNew, Sync: l.o.Durability == DurabilityPower, Log: l.log, Relink: l.relink}
}

func (l *Log) applyEnv() apply.Env {
	return apply.Env{
		Root: l.root, Lender: l.lender(), Volumes: l.volumes, Log: l.log,
		Relink: l.relink,
		HashContent: func(dirfd int, name string, st *hostfs.Stat) uint64 {
			return l.stamps.ContentOf(&stamps.Seen{FD: dirfd, Name: name, Stat: st})
		},
		NewContent: func(w *format.Writer, dir *store.StepDir, obj format.ObjID) *store.ContentWriter {
			return l.host.Contents.Writer(w, dir, obj, nil)
		},
		StepBySeq: func(seq uint64) (string, bool) {
			for _, s := range l.stepEntries() {
				if s.Seq == seq {
					return "steps/" + s.name, true
				}
			}
			return "", false
		},
	}
}

// newEngine makes what applies the step directory that is being read.
func (l *Log) newEngine(read *layer.Reading, t task, force bool) (*apply.Engine, error) {
	r, err := t.route()
	if err != nil {
		read.Close()
		return nil, err
	}
	target, err := l.loadLayer(read, t.ofOpen(), force)
	if err != nil {
		return nil, err
	}
	e := apply.New(l.applyEnv(), target, r.home)
	e.Forget = t.Kind == taskAbort
	e.Follow = t.Kind != taskRestore // which makes what is asked for at its path
	return e, nil
}

// mindEdits has an engine that may overwrite edits know them.
func (l *Log) mindEdits(e *apply.Engine, t task, force bool) {
	if (force || l.o.Barriers == PolicyWarn) && (t.Kind == taskUndo || t.Kind == taskRedo) {
		e.Edits = l.stamps
	}
}

// prepare makes the directory rollback, complete, by one rename.
func (l *Log) prepare(e *apply.Engine, o transactOptions, t *task) error {
	fd, err := hostfs.OpenSubdir(l.at.Wal, rollbackNew, true)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if t.Tick, err = l.ids.NextSeq(); err != nil {
		return err
	}
	if err := e.Create(fd); err != nil {
		return err
	}
	if e.Sign, err = store.CreateAlive(fd); err != nil {
		l.log.Warn("no sign of life of an undo", "err", err)
	}
	if t.Kind != taskAbort {
		if err := l.prepareInverse(e, o.read.Dir, t); err != nil {
			return err
		}
	}
	if o.fill != nil {
		if err := o.fill(e, e.Inverse); err != nil {
			return err
		}
	}
	if err := writeForeign(fd, slices.Concat(e.ForeignIDs, e.EditedIDs)); err != nil {
		return err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := store.WriteFile(fd, "plan", b); err != nil {
		return err
	}
	if err := fault.Point("rollback.begin"); err != nil {
		return err
	}
	err = hostfs.RenameAt(l.at.Wal, rollbackNew, l.dir.FD(), rollbackName, 0)
	e.Begun = err == nil
	return err
}

// discardNew throws away what a task left that never began.
func (l *Log) discardNew() error { return l.discardDir(l.at.Wal, rollbackNew) }

// discardFailed is discardNew for a task that err ended before it began. Where err says that the log
// has no space, what the task had written goes at once: whatever is next needs the space.
func (l *Log) discardFailed(ctx context.Context, err error) error {
	if derr := l.discardNew(); derr != nil {
		return derr
	}
	if store.NoSpace(err) {
		return l.emptyTrash(context.WithoutCancel(ctx))
	}
	return nil
}

// prepareInverse fills the inverse's directory.
func (l *Log) prepareInverse(e *apply.Engine, dir *store.StepDir, t *task) error {
	step := e.Layer().Rec.Step
	step.Tick = t.Tick
	if err := e.WriteInverse(step, l.o.Durability == DurabilityPower); err != nil {
		return fmt.Errorf("keep what is replaced: %w", err)
	}
	if err := e.Keep(); err != nil {
		return err
	}
	if t.Kind == taskRestore || t.Kind == taskRecover { // which have lists of their own
		return nil
	}
	for _, name := range []string{"summary.json", "paths"} {
		err := hostfs.LinkAt(dir.FD, name, e.Inverse, name)
		if err != nil && !errors.Is(err, posix.ENOENT) {
			return err
		}
	}
	return nil
}
