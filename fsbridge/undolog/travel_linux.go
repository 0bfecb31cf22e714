package undolog

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
)

// Undo undoes the newest steps, newest first, and keeps what it replaces for
// Redo. Steps that were undone before an error stay undone: the result tells
// which. It returns ErrNothing, ErrBusy while a step is open, a *BarrierError,
// ErrUnprotected or ErrDamaged; o.Force overrides the last three.
func (l *Log) Undo(ctx context.Context, o UndoOptions) (*ApplyResult, error) {
	return l.travel(ctx, o, taskUndo)
}

// Undone returns the steps that Redo can do again, the next one first. It may be
// called at any time.
func (l *Log) Undone() []StepID {
	redo := l.redoEntries()
	ids := make([]StepID, 0, len(redo))
	for i := len(redo) - 1; i >= 0; i-- {
		ids = append(ids, redo[i].StepID)
	}
	return ids
}

// Redo does the steps again that were undone last. It returns ErrNoRedo, and
// otherwise what Undo returns.
func (l *Log) Redo(ctx context.Context, o UndoOptions) (*ApplyResult, error) {
	return l.travel(ctx, o, taskRedo)
}

func (l *Log) travel(ctx context.Context, o UndoOptions, kind taskKind) (told *ApplyResult, err error) {
	defer l.still()()
	res, count := &ApplyResult{}, max(o.Count, 1)
	if o.DryRun && l.unrecovered() {
		return nil, errInterrupted
	}
	t, out, err := l.idle(ctx)
	if err != nil {
		return l.interrupted(nil), err
	}
	if t != nil {
		res.Changes = out.changes
		defer func() {
			if told == nil { // also if nothing more is done
				told = res
			}
		}()
	}
	if t != nil && t.Kind == kind { // asked for before, and finished only now
		res.add(Entry{StepID: t.Step}, out)
		if count--; count == 0 {
			return res, nil
		}
	}
	from, none := l.stepEntries(), ErrNothing
	if kind == taskRedo {
		from, none = l.redoEntries(), ErrNoRedo
	}
	if len(from) == 0 {
		return nil, none
	}
	if count > len(from) {
		return nil, fmt.Errorf("%w: %d step(s) are kept, %d asked for", none, len(from), count)
	}
	chosen := from[len(from)-count:]
	var first *stepDir // is read while it is looked for barriers
	if !o.DryRun {
		if first, err = l.openTask(task{Kind: kind, Name: chosen[count-1].name}); err == nil {
			defer first.close()
			first.readAhead()
		}
	}
	if err := l.admit(ctx, chosen, kind, o, res); err != nil {
		return nil, err
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		if o.DryRun {
			if err := l.foretell(chosen[i], kind, res); err != nil {
				return nil, err
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return res, err
		}
		out, err := l.travelOne(ctx, task{Kind: kind, Step: chosen[i].StepID, Name: chosen[i].name}, o.Force, first)
		first = nil
		if err != nil {
			return l.interrupted(res), fmt.Errorf("%s step %d: %w", kind, chosen[i].StepID, err)
		}
		res.add(chosen[i].Entry, out)
	}
	return res, nil
}

// travelOne applies a step; dir is its directory, if that is open.
func (l *Log) travelOne(ctx context.Context, t task, force bool, dir *stepDir) (*outcome, error) {
	if dir == nil {
		return l.apply(ctx, t, force)
	}
	return l.applyDir(ctx, dir, t, force, nil)
}

// idle makes sure that no step is open, and finishes what was interrupted.
func (l *Log) idle(ctx context.Context) (*task, *outcome, error) {
	if l.isClosed() {
		return nil, nil, ErrClosed
	}
	if id, open := l.Current(); open {
		return nil, nil, fmt.Errorf("%w: step %d", ErrBusy, id)
	}
	return l.resumeTask(ctx)
}

// admit refuses what must not be undone without force.
func (l *Log) admit(ctx context.Context, chosen []*stepEntry, kind taskKind, o UndoOptions, res *ApplyResult) error {
	for i := len(chosen) - 1; i >= 0; i-- {
		e := chosen[i]
		switch {
		case e.Unprotected && !o.Force:
			return fmt.Errorf("step %d: %w", e.StepID, ErrUnprotected)
		case e.Damaged != "" && !o.Force:
			return fmt.Errorf("step %d: %w: %s", e.StepID, ErrDamaged, e.Damaged)
		}
	}
	barriers, err := l.crossing(ctx, chosen, kind)
	if err != nil {
		return err
	}
	if len(barriers) == 0 {
		return nil
	}
	if !o.Force {
		return &BarrierError{Barriers: barriers}
	}
	n := 0
	for _, b := range barriers {
		n += len(b.Paths)
	}
	res.Warnings = append(res.Warnings, fmt.Sprintf("%d path(s) that were changed outside the sandbox were overwritten", n))
	return nil
}

// foretell adds what undoing e would change.
func (l *Log) foretell(e *stepEntry, kind taskKind, res *ApplyResult) error {
	dir, err := l.openTask(task{Kind: kind, Name: e.name})
	if err != nil {
		return err
	}
	defer dir.close()
	res.Steps = append(res.Steps, e.Entry)
	return res.addPaths(dir.fd, e.AffectedCount)
}

// addPaths adds the first paths of a step that has count of them.
func (r *ApplyResult) addPaths(dirfd, count int) error {
	enough := errors.New("enough")
	r.PathCount += count
	err := readPaths(dirfd, func(a Affected) error {
		if len(r.Paths) >= HistoryPaths {
			return enough
		}
		r.Paths = append(r.Paths, a)
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

func (r *ApplyResult) add(e Entry, out *outcome) {
	r.Steps = append(r.Steps, e)
	r.PathCount += out.count
	r.Paths = append(r.Paths, out.paths[:min(len(out.paths), HistoryPaths-len(r.Paths))]...)
	r.Warnings = append(r.Warnings, out.warnings...)
	r.Changes.List = append(r.Changes.List, out.changes.List...)
	if out.changes.All || len(r.Changes.List) > maxChanges {
		r.Changes = fsbridge.Changes{All: true}
	}
}
