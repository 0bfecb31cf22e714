package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Restore brings one path, with everything below it, back to what it was when
// step o.Step began, by a step of its own (type api) that can be undone. A
// path that did not exist then is removed. It returns ErrNoStep, ErrBusy while
// a step is open, ErrUnprotected or ErrDamaged if a step in between cannot be
// looked through, and a *BarrierError if somebody outside has changed the path
// since; o.Force overrides the last. An empty result says that the path is as
// it was.
func (l *Log) Restore(ctx context.Context, o RestoreOptions) (*ApplyResult, error) {
	parts, err := hostfs.SplitPath(o.Path)
	if err != nil {
		return nil, err
	}
	defer l.still()()
	if o.DryRun && l.unrecovered() {
		return nil, errInterrupted
	}
	_, before, err := l.idle(ctx)
	if err != nil {
		return l.interrupted(nil), err
	}
	res, err := l.restore(ctx, parts, o)
	if before != nil {
		if res == nil {
			res = &ApplyResult{}
		}
		res.Changes = before.changes
	}
	return res, err
}

// restore is Restore in a log that is idle.
func (l *Log) restore(ctx context.Context, parts []string, o RestoreOptions) (*ApplyResult, error) {
	steps := l.stepEntries()
	from := slices.IndexFunc(steps, func(e *stepEntry) bool { return e.StepID == o.Step })
	if from < 0 {
		return nil, fmt.Errorf("%w: %d", ErrNoStep, o.Step)
	}
	steps = steps[from:]
	if err := l.admitRestore(ctx, steps, o); err != nil {
		return nil, err
	}
	v, done, err := l.pastOf(steps, o.Force)
	defer done()
	if err != nil {
		return nil, err
	}
	return l.restoreFrom(ctx, v, parts, o)
}

// admitRestore refuses what cannot be looked through, and to overwrite edits
// from outside at the path.
func (l *Log) admitRestore(ctx context.Context, steps []*stepEntry, o RestoreOptions) error {
	for _, e := range steps {
		if e.Unprotected {
			return fmt.Errorf("step %d: %w", e.StepID, ErrUnprotected)
		}
		if e.Damaged != "" {
			return fmt.Errorf("step %d: %w: %s", e.StepID, ErrDamaged, e.Damaged)
		}
	}
	if o.Force {
		return nil
	}
	newest := slices.Clone(steps)
	slices.Reverse(newest)
	all, err := l.checkBarriers(ctx, newest)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(b Barrier) bool {
		return !slices.ContainsFunc(b.Paths, func(p string) bool {
			return o.Path == "" || o.Path == "." || p == o.Path || strings.HasPrefix(p, o.Path+"/")
		})
	})
	if len(all) > 0 {
		return &BarrierError{Barriers: all}
	}
	return nil
}

// restoreFrom writes what the view shows at a path as the records of a new
// step, and applies them; their inverse is the step.
func (l *Log) restoreFrom(ctx context.Context, v *pastView, parts []string, o RestoreOptions) (*ApplyResult, error) {
	wal, err := hostfs.OpenDirPathAt(l.dir.FD(), "wal")
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(wal)
	if err := l.discardNew(); err != nil {
		return nil, err
	}
	id, err := l.ids.nextStep(TypeAPI)
	if err != nil {
		return nil, err
	}
	seq, err := l.ids.nextSeq()
	if err != nil {
		return nil, err
	}
	step := stepRecord{ID: id, Seq: seq, StartedAt: l.now(), Type: TypeAPI,
		Command: fmt.Sprintf("restore %s --step %d", o.Path, o.Step)}
	fd, err := hostfs.OpenSubdir(wal, rollbackNew, true)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	done := false
	defer func() {
		if !done {
			_ = l.discardDir(wal, rollbackNew)
		}
	}()
	tfd, err := hostfs.OpenSubdir(fd, "target", true)
	if err != nil {
		return nil, err
	}
	target := newStepDir(tfd)
	defer target.close()
	w := &pastWriter{v: v, dir: target, objs: map[*thing]objID{}}
	if err := w.write(ctx, step, parts); err != nil {
		return nil, err
	}
	out, err := l.applyRestore(ctx, target, task{Kind: taskRestore, Step: id, Name: formatStepID(id)}, step, o)
	if err != nil || out == nil {
		return l.interrupted(&ApplyResult{}), err
	}
	done = !o.DryRun
	res := out.result()
	if !o.DryRun {
		if err := l.enforceLimits(ctx); err != nil {
			l.log.Error("limits not enforced", "err", err)
		}
	}
	for _, e := range l.stepEntries() {
		if e.StepID == id {
			res.Steps = []Entry{e.Entry}
		}
	}
	return res, nil
}

// applyRestore is applyDir for the records of a restore; nil says that there
// is nothing to do, or that it was only to be told what would be done.
func (l *Log) applyRestore(ctx context.Context, target *stepDir, t task, step stepRecord, o RestoreOptions) (*outcome, error) {
	e, err := l.newEngine(target, t, false)
	if err != nil {
		return nil, err
	}
	defer e.close()
	defer e.ungrant()
	if err := e.locate(); err != nil {
		return nil, err
	}
	e.plan()
	if len(e.lost) > 0 {
		return nil, fmt.Errorf("%w: %q cannot be restored", ErrDamaged, e.lost[0])
	}
	if e.nothingToDo() {
		return nil, nil
	}
	if o.DryRun {
		out := &outcome{}
		out.paths, out.count = e.affected()
		return out, nil
	}
	if err := l.dropRedo(); err != nil {
		return nil, err
	}
	list, count := e.affected()
	summary := func(fd int) error {
		s := entryOf(&step)
		s.EndedAt, s.Status = l.now(), "completed"
		s.AffectedCount, s.AffectedPaths = count, []string{}
		for _, a := range list {
			s.AffectedPaths = append(s.AffectedPaths, a.Path)
		}
		var err error
		if s.StoredBytes, err = diskUsage(fd); err != nil {
			return err
		}
		return errors.Join(writePaths(fd, e.affectedAll()), writeSummary(fd, s))
	}
	if err := l.prepare(e, target, &t, summary); err != nil {
		return nil, err
	}
	return l.carryOut(ctx, e, target, t)
}
