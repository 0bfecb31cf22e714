package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/past"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Restore brings one path, with everything below it, back to what it was when
// step o.Step began, by a step of its own (type api) that can be undone. A
// path that did not exist then is removed. It returns ErrNoStep, ErrBusy while
// a step is open, ErrUnprotected or ErrDamaged if a step in between cannot be
// looked through, ENOENT for a path that was not there then and is not now, and a *BarrierError if somebody outside has changed the path
// since, or ErrElsewhere if a step moved something there that would be nowhere then; o.Force overrides these two. An empty result
// says that the path is as it was.
func (l *Log) Restore(ctx context.Context, o RestoreOptions) (*ApplyResult, error) {
	parts, err := hostfs.SplitPath(o.Path)
	if err != nil {
		return nil, err
	}
	defer l.still()()
	if err := l.idle(); err != nil {
		return nil, err
	}
	if o.DryRun {
		if l.rollingBack() || l.lender().Lent() {
			return nil, ErrInterrupted
		}
		res := &ApplyResult{}
		return whole(res, l.restore(ctx, parts, o, res))
	}
	return whole(l.completeFirst(ctx, func(_ *finished, res *ApplyResult) error {
		if _, err := l.takeUp(res, taskRestore, 1); err != nil {
			return err
		}
		return l.restore(ctx, parts, o, res)
	}))
}

// restore is Restore in a log that is idle.
func (l *Log) restore(ctx context.Context, parts []string, o RestoreOptions, res *ApplyResult) error {
	steps := l.seenEntries()
	from := slices.IndexFunc(steps, func(e *stepEntry) bool { return e.StepID == o.Step })
	if from < 0 {
		return fmt.Errorf("%w: %d", ErrNoStep, o.Step)
	}
	steps = steps[from:]
	for _, e := range steps {
		if e.Unprotected {
			return fmt.Errorf("step %d: %w", e.StepID, ErrUnprotected)
		}
		if e.Damaged != "" {
			return fmt.Errorf("step %d: %w: %s", e.StepID, ErrDamaged, e.Damaged)
		}
	}
	v, done, err := l.pastOf(steps, o.Force)
	defer done()
	if err != nil {
		return err
	}
	parts = v.Spelled(parts)
	o.Path = strings.Join(parts, "/")
	if err := l.admitRestore(ctx, steps, o); err != nil {
		return err
	}
	v.Edited = l.editedByOthers()
	return l.restoreFrom(ctx, v, parts, o, res)
}

// admitRestore refuses to overwrite edits from outside at the path. Those that were made by other names of its files [past.WriteTarget] finds.
func (l *Log) admitRestore(ctx context.Context, steps []*stepEntry, o RestoreOptions) error {
	if o.Force {
		return nil
	}
	look := l.foreseen
	if !o.DryRun {
		look = func(ctx context.Context, steps []*stepEntry, kind taskKind) ([]Barrier, error) {
			return l.crossing(ctx, steps, kind, nil)
		}
	}
	all, err := look(ctx, steps, taskUndo)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(b Barrier) bool {
		return !slices.ContainsFunc(b.Paths, func(p string) bool {
			return o.Path == "" || p == o.Path || strings.HasPrefix(p, o.Path+"/")
		})
	})
	if len(all) > 0 {
		return &BarrierError{Barriers: all}
	}
	return nil
}

// restoreFrom writes what the view shows at a path as the records of a new
// step, and applies them; their inverse is the step.
func (l *Log) restoreFrom(ctx context.Context, v *past.View, parts []string, o RestoreOptions, res *ApplyResult) (err error) {
	step, target, err := l.restoreTarget(ctx, v, parts, o)
	if target != nil {
		defer target.Close()
	}
	done := false
	defer func() {
		if !done {
			_ = l.discardNew()
		}
	}()
	if err != nil {
		return err
	}
	var paths int64 // set before anything is changed
	out, err := l.transact(ctx, task{Kind: taskRestore, Step: step.ID, Name: store.FormatStepID(step.ID)}, transactOptions{
		read: layer.Read(target), progress: o.Progress.of(&paths),
		admit: func(e *apply.Engine) (bool, error) {
			if e.NothingToDo() {
				return false, nil
			}
			if o.DryRun {
				res.Paths, res.PathCount = e.Affected()
				return false, nil
			}
			return true, l.dropRedo()
		},
		fill: func(e *apply.Engine, fd int) error {
			affected := e.AffectedAll()
			paths = int64(len(affected))
			return l.summarise(fd, store.EntryOf(&step), "completed", affected)
		},
	})
	if err != nil || out == nil {
		return err
	}
	if out.nothing {
		res.addLeft(out.left)
		return nil
	}
	done = true
	*res = *out.result()
	if err := l.enforceLimits(); err != nil {
		l.log.Error("limits not enforced", "err", err)
	}
	for _, e := range l.stepEntries() {
		if e.StepID == step.ID {
			res.Steps = []Entry{e.Entry}
		}
	}
	return nil
}

// restoreTarget makes the directory of a new task, and in it the step directory that is to be applied: what the view
// shows at a path. The caller closes that, also after an error if it is not nil, and discards the task if it does not begin.
func (l *Log) restoreTarget(ctx context.Context, v *past.View, parts []string, o RestoreOptions) (step format.Step, target *store.StepDir, err error) {
	if err := l.discardNew(); err != nil {
		return step, nil, err
	}
	step = format.Step{StartedAt: l.now(), Type: TypeAPI, Command: fmt.Sprintf("restore %s --step %d", o.Path, o.Step)}
	if step.ID, err = l.ids.NextStep(TypeAPI); err != nil {
		return step, nil, err
	}
	if step.Seq, err = l.ids.NextSeq(); err != nil {
		return step, nil, err
	}
	fd, err := hostfs.OpenSubdir(l.at.Wal, rollbackNew, true)
	if err != nil {
		return step, nil, err
	}
	defer hostfs.Close(fd)
	tfd, err := hostfs.OpenSubdir(fd, "target", true)
	if err != nil {
		return step, nil, err
	}
	target = store.NewStepDir(tfd).With(l.volumes)
	edited, err := past.WriteTarget(ctx, v, target, step, parts, o.Force)
	if err == nil && len(edited) > 0 {
		err = &BarrierError{Barriers: []Barrier{{At: l.now(), Paths: edited}}}
	}
	return step, target, err
}

// summarise writes the files "paths" and "summary.json" of a step that ends now without having
// counted what it stored.
func (l *Log) summarise(dirfd int, e Entry, status string, list []Affected) (err error) {
	e.EndedAt, e.Status = l.now(), status
	e.Affect(list)
	if e.StoredBytes, err = store.DiskUsage(dirfd); err != nil {
		return err
	}
	return errors.Join(store.WritePaths(dirfd, list), store.WriteSummary(dirfd, e))
}
