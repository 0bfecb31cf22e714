package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Undo undoes the newest steps, newest first, and keeps what it replaces for
// Redo. Steps that were undone before an error stay undone: the result tells
// which. It returns ErrNothing, ErrBusy while a step is open, a *BarrierError,
// ErrUnprotected or ErrDamaged; o.Force overrides the last three. Of a group, or
// down to a mark, all steps are undone, or none.
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

func (l *Log) travel(ctx context.Context, o UndoOptions, kind taskKind) (*ApplyResult, error) {
	if o.DryRun {
		return l.foretell(ctx, kind, o)
	}
	defer l.still()()
	if err := l.idle(); err != nil {
		return nil, err
	}
	return whole(l.completeFirst(ctx, func(before *finished, res *ApplyResult) error {
		count := res.completed(before, kind, max(o.Count, 1)) // asked for before, and finished only now
		count, err := l.takeUp(res, kind, count)
		if count == 0 || err != nil {
			return err
		}
		chosen, err := l.chosen(kind, o, count)
		if err != nil {
			return err
		}
		if err := careful(chosen, kind, o); err != nil {
			return err
		}
		if o.Group != 0 || o.To != "" {
			return l.travelTogether(ctx, chosen, kind, o, res)
		}
		return l.travelSteps(ctx, chosen, kind, o, res)
	}))
}

// takeUp makes an interrupted step a closed one, the newest, and so counts for a redo as done again. It
// returns how many of count are left.
func (l *Log) takeUp(res *ApplyResult, kind taskKind, count int) (int, error) {
	r, err := l.keepCut()
	if r == nil || err != nil {
		return count, err
	}
	res.Warnings = append(res.Warnings, r.Problems...)
	if newest, ok := l.newestStep(); ok && newest.ID == r.StepID && kind == taskRedo {
		steps := l.stepEntries()
		res.Steps = append(res.Steps, steps[len(steps)-1].Entry)
		res.Warnings = append(res.Warnings, fmt.Sprintf("step %d was interrupted and not rolled back: it stays as it is", r.StepID))
		count--
	}
	return count, nil
}

// travelSteps applies steps, the last one first.
func (l *Log) travelSteps(ctx context.Context, chosen []*stepEntry, kind taskKind, o UndoOptions, res *ApplyResult) error {
	var first *layer.Reading
	if dir, err := l.openTask(task{Kind: kind, Name: chosen[len(chosen)-1].name}); err == nil {
		defer dir.Close()
		first = layer.Read(dir)
		defer first.Close()
	}
	if err := l.admit(ctx, chosen, kind, o, res, first); err != nil {
		return err
	}
	way := travelling(o.Progress, chosen)
	for _, s := range slices.Backward(chosen) {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := l.transact(ctx, task{Kind: kind, Step: s.StepID, Name: s.name}, transactOptions{force: o.Force, read: first, progress: way.step(s)})
		first = nil
		if err != nil {
			return fmt.Errorf("%s step %d: %w", kind, s.StepID, err)
		}
		if out.nothing {
			res.addLeft(out.left)
			res.Warnings = append(res.Warnings, out.warnings...)
			if !o.Force { // what is older stays out of reach until somebody says so
				return nil
			}
			continue
		}
		res.add(s.Entry, out)
		if kind == taskUndo {
			res.addLeft(s.StillNotKept(out.left))
			if s.Unprotected {
				res.addLeft(unrecorded)
			}
		}
	}
	return nil
}

// idle makes sure that no step is open.
func (l *Log) idle() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if id, open := l.Current(); open {
		return fmt.Errorf("%w: step %d", ErrBusy, id)
	}
	return nil
}

// admit refuses what must not be undone without force. first, if it is not nil, is the last of chosen, which is
// being read.
func (l *Log) admit(ctx context.Context, chosen []*stepEntry, kind taskKind, o UndoOptions, res *ApplyResult, first *layer.Reading) error {
	if err := intact(chosen); err != nil && !o.Force {
		return err
	}
	barriers, err := l.crossing(ctx, chosen, kind, first)
	if err != nil {
		return err
	}
	return cross(barriers, o.Force, res)
}

// careful refuses to do steps again that were rolled back, if who asks is not the user.
func careful(chosen []*stepEntry, kind taskKind, o UndoOptions) error {
	i := slices.IndexFunc(chosen, func(e *stepEntry) bool { return e.Status == StatusRolledBack })
	if i < 0 || kind != taskRedo || !o.Careful {
		return nil
	}
	return fmt.Errorf("%w: step %d was rolled back while it ran, perhaps because it was denied; the user can do it again with 'sandbox redo'",
		ErrNoRedo, chosen[i].StepID)
}

// intact refuses steps of which the log does not have all.
func intact(chosen []*stepEntry) error {
	for _, e := range slices.Backward(chosen) {
		switch {
		case e.Unprotected:
			return fmt.Errorf("step %d: %w", e.StepID, ErrUnprotected)
		case e.Damaged != "":
			return fmt.Errorf("step %d: %w: %s", e.StepID, ErrDamaged, e.Damaged)
		}
	}
	return nil
}

// cross refuses to cross barriers, or with force notes them for [ApplyResult.tellCrossed].
func cross(barriers []Barrier, force bool, res *ApplyResult) error {
	if len(barriers) == 0 {
		return nil
	}
	if !force {
		return &BarrierError{Barriers: barriers}
	}
	for _, b := range barriers {
		res.crossed = append(res.crossed, b.Paths...)
	}
	return nil
}

// foretell tells what undoing steps, or doing them again, would change. It changes nothing, in the log
// neither.
func (l *Log) foretell(ctx context.Context, kind taskKind, o UndoOptions) (*ApplyResult, error) {
	if l.rollingBack() {
		return nil, ErrInterrupted
	}
	if err := l.idle(); err != nil {
		return nil, err
	}
	chosen, err := l.chosen(kind, o, max(o.Count, 1))
	if err != nil {
		return nil, err
	}
	if err := careful(chosen, kind, o); err != nil {
		return nil, err
	}
	if err := intact(chosen); err != nil && !o.Force {
		return nil, err
	}
	barriers, err := l.foreseen(ctx, chosen, kind)
	if err != nil {
		return nil, err
	}
	res := &ApplyResult{}
	if err := cross(barriers, o.Force, res); err != nil {
		return nil, err
	}
	for i, s := range slices.Backward(chosen) {
		dir, err := l.openEntry(kind, s)
		if err != nil {
			return nil, err
		}
		if i == len(chosen)-1 { // of the others nobody knows what will be there
			l.foretellLeft(dir, task{Kind: kind, Step: s.StepID, Name: s.name}, o.Force, res)
		}
		res.Steps = append(res.Steps, s.Entry)
		err = res.addPaths(s, dir)
		_ = dir.Close()
		if err != nil {
			return nil, err
		}
	}
	res.tellCrossed()
	return res, nil
}

// addPaths adds the first paths of a step, the directory of which is open.
func (r *ApplyResult) addPaths(e *stepEntry, dir *store.StepDir) error {
	enough := errors.New("enough")
	r.PathCount += e.AffectedCount
	err := readPaths(e, dir, func(a Affected) error {
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
	r.addLeft(out.left)
	r.Changes.List = append(r.Changes.List, out.changes.List...)
	if out.changes.All || len(r.Changes.List) > apply.MaxChanges {
		r.Changes = fsbridge.Changes{All: true}
	}
}
