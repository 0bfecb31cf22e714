package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/stamps"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// carryOut changes the working folder and finishes the task.
func (l *Log) carryOut(ctx context.Context, e *apply.Engine, dir *store.StepDir, t task) (*outcome, error) {
	l.stamps.SetApplying(true)
	replaced := readInverse(e.Inverse, l.volumes, t)
	err := e.Run(context.WithoutCancel(ctx))
	inverse, ierr := replaced()
	if err != nil {
		l.held.Forget()
		return nil, fmt.Errorf("the folder is half undone; 'sandbox undo', 'sandbox redo' or the next 'sandbox run' completes it: %w", err)
	}
	l.held.Recount(e.ChangedInode)
	out := &outcome{step: e.Layer().Rec.Step}
	if out.changes = (fsbridge.Changes{List: e.Changes}); len(e.Changes) > apply.MaxChanges {
		out.changes = fsbridge.Changes{All: true}
	}
	if t.Kind == taskUndo || t.Kind == taskRedo {
		var list ApplyResult
		if err := list.addPaths(&stepEntry{Entry: store.LoadEntry(dir, t.Step)}, dir); err != nil {
			e.Warn("paths of step %d: %v", t.Step, err)
		}
		out.paths, out.count = list.Paths, list.PathCount
	} else {
		out.paths, out.count = e.Affected()
	}
	out.warnings = e.Warnings
	out.leave(e.Left())
	made, err := store.ReadMade(e.Inverse, l.volumes)
	if err != nil {
		return nil, err
	}
	if err := l.renumbered.Add(e.Layer().Rec.Step.Born(), t.Tick, made); err != nil {
		return nil, err
	}
	if err := errors.Join(ierr, l.settled(e, inverse, made)); err != nil {
		l.log.Error("barriers will be missed", "step_id", t.Step, "err", err)
	}
	if t.Kind == taskRestore { // of which no rest is kept that would guard what was left for an edit
		if err := l.stamps.Edited(stamps.StepRef{ID: t.Step, Seq: out.step.Seq}, changedMeanwhile(e.Left())); err != nil {
			return nil, err
		}
	}
	roll, err := hostfs.OpenDirPathAt(l.dir.FD(), rollbackName)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(roll)
	if err := l.writeLeft(roll, e, dir, t); err != nil {
		return nil, err
	}
	if err := store.WriteFile(roll, "applied", nil); err != nil {
		return nil, err
	}
	if err := l.finish(roll, t); err != nil {
		return nil, err
	}
	return out, l.stillEdited(t, e.EditedPaths())
}

// stillEdited has what an undo by force has left, since somebody edited it, stand in the way of the next one, too: the barrier went with the step.
func (l *Log) stillEdited(t task, paths []string) error {
	newest, ok := l.newestStep()
	if t.Kind != taskUndo || !ok || len(paths) == 0 {
		return nil
	}
	return l.stamps.Edited(newest, paths)
}

// readInverse reads what the complete inverse behind fd names while the folder is being
// changed. The function that it returns waits for that; an abort gives nil.
func readInverse(fd int, v *format.Volumes, t task) (wait func() (*stamps.Touched, error)) {
	if t.Kind == taskAbort {
		return func() (*stamps.Touched, error) { return nil, nil }
	}
	var read *stamps.Touched
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		read, err = stamps.TouchedBy(fd, v)
	}()
	return func() (*stamps.Touched, error) { <-done; return read, err }
}

// settled takes the stamps of what the folder is like now. It comes before the
// task is over, so that a kill in between does not leave stale ones.
func (l *Log) settled(e *apply.Engine, inverse *stamps.Touched, made []store.Made) error {
	numbers := make(map[hostfs.ID]hostfs.ID, len(made))
	for _, m := range slices.Backward(made) { // what was copied out and in again has two
		if m.Shared {
			continue
		}
		if last, ok := numbers[m.New]; ok {
			m.New = last
		}
		numbers[m.Old] = m.New
	}
	return l.restamp(e, inverse, numbers)
}

// finish moves the step directories of a task that is applied to their new
// places. It may be called again after being killed anywhere.
func (l *Log) finish(roll int, t task) error {
	if err := fault.Point("rollback.finish"); err != nil {
		return err
	}
	r, err := t.route()
	if err != nil {
		return err
	}
	if r.to != "" {
		if err := l.measure(t); err != nil {
			l.log.Error("what an undone step keeps is not known", "step_id", t.Step, "err", err)
		}
		err := hostfs.RenameNew(roll, "inverse", l.at.Named(r.to), t.Name)
		if err != nil && !errors.Is(err, posix.ENOENT) {
			return err
		}
	}
	if err := fault.Point("rollback.moved"); err != nil {
		return err
	}
	if r.parent != rollbackName { // that goes as a whole
		if err := l.endTarget(roll, t, r); err != nil {
			return err
		}
	}
	if t.Kind == taskUndo { // as long as somebody knows of this undo
		if err := l.crossed(t.Name); err != nil {
			l.log.Error("barriers of an undone step are left", "step_id", t.Step, "err", err)
		}
	}
	if err := fault.Point("rollback.end"); err != nil {
		return err
	}
	if err := l.discardDir(l.dir.FD(), rollbackName); err != nil || r.to == "" {
		return err
	}
	return l.relist(t.Name, r.to)
}

// measure writes into the inverse's summary what it occupies, now that it has what was
// replaced. What the step itself occupied stood there.
func (l *Log) measure(t task) error {
	id, err := store.ParseStepID(t.Name)
	if err != nil {
		return err
	}
	dir, err := l.at.OpenStep(rollbackName, "inverse")
	if errors.Is(err, posix.ENOENT) { // it has its place already
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	e := store.LoadEntry(dir, id)
	if e.Damaged != "" {
		return nil
	}
	e.Compressed = false
	if e.StoredBytes, err = store.DiskUsage(dir.FD); err != nil {
		return err
	}
	was, err := hostfs.StatAt(dir.FD, "summary.json") // a name of the step's own
	if err != nil || was.Nlink < 2 {
		return errors.Join(err, store.WriteSummary(dir.FD, e))
	}
	return l.held.Change(was.ID, -1, func() error { return store.WriteSummary(dir.FD, e) })
}

// relist lists a step directory where it is now, below "steps" or "redo", and no longer
// where it was.
func (l *Log) relist(name, parent string) error {
	id, err := store.ParseStepID(name)
	if err != nil {
		return err
	}
	dir, err := l.at.OpenStep(parent, name)
	if err != nil {
		return err
	}
	e := &stepEntry{Entry: store.LoadEntry(dir, id), name: name}
	_ = dir.Close()
	l.known.change(func(k *lists) {
		k.steps, k.redo = without(k.steps, name), without(k.redo, name)
		if k.cut != nil && k.cut.name == name {
			k.cut = nil
		}
		if parent == "steps" {
			k.steps = append(k.steps, e)
			slices.SortFunc(k.steps, bySeq)
		} else {
			k.redo = append(k.redo, e)
			slices.SortFunc(k.redo, func(a, b *stepEntry) int { return bySeq(b, a) })
		}
	})
	return nil
}

// crossed drops the barriers that the undo of a step, the directory name of which
// is below redo/ now, went across. It may be called again.
func (l *Log) crossed(name string) error {
	l.known.change(func(k *lists) { k.steps = without(k.steps, name) })
	if len(l.barriers()) == 0 {
		return nil
	}
	over := map[string]bool{}
	dir, err := l.at.OpenStep("redo", name)
	if err == nil {
		err = store.ReadPaths(dir.FD, func(a Affected) error { over[a.Path] = true; return nil })
		_ = dir.Close()
	}
	return errors.Join(err, l.undone(func(p string) bool { return over[p] }))
}
