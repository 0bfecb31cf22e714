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
	defer l.still()()
	if err := l.idle(o.DryRun); err != nil {
		return nil, err
	}
	return whole(l.completeFirst(ctx, func(before *finished, res *ApplyResult) error {
		count := res.completed(before, kind, max(o.Count, 1)) // asked for before, and finished only now
		if count == 0 {
			return nil
		}
		chosen, err := l.chosen(kind, o, count)
		if err != nil {
			return err
		}
		if o.DryRun {
			return l.foretell(ctx, chosen, kind, o, res)
		}
		if o.Group != 0 || o.To != "" {
			return l.travelTogether(ctx, chosen, kind, o, res)
		}
		return l.travelSteps(ctx, chosen, kind, o, res)
	}))
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
		res.add(s.Entry, out)
	}
	return nil
}

// idle makes sure that no step is open and, for a trial, that nothing was interrupted.
func (l *Log) idle(trial bool) error {
	if trial && l.unrecovered() {
		return errInterrupted
	}
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
	for i := len(chosen) - 1; i >= 0; i-- {
		e := chosen[i]
		switch {
		case e.Unprotected && !o.Force:
			return fmt.Errorf("step %d: %w", e.StepID, ErrUnprotected)
		case e.Damaged != "" && !o.Force:
			return fmt.Errorf("step %d: %w: %s", e.StepID, ErrDamaged, e.Damaged)
		}
	}
	barriers, err := l.crossing(ctx, chosen, kind, first)
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

// foretell adds what undoing steps would change.
func (l *Log) foretell(ctx context.Context, chosen []*stepEntry, kind taskKind, o UndoOptions, res *ApplyResult) error {
	if err := l.admit(ctx, chosen, kind, o, res, nil); err != nil {
		return err
	}
	for _, s := range slices.Backward(chosen) {
		dir, err := l.openTask(task{Kind: kind, Name: s.name})
		if err != nil {
			return err
		}
		res.Steps = append(res.Steps, s.Entry)
		err = res.addPaths(dir.FD, s.AffectedCount)
		_ = dir.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// addPaths adds the first paths of a step that has count of them.
func (r *ApplyResult) addPaths(dirfd, count int) error {
	enough := errors.New("enough")
	r.PathCount += count
	err := store.ReadPaths(dirfd, func(a Affected) error {
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
	if out.changes.All || len(r.Changes.List) > apply.MaxChanges {
		r.Changes = fsbridge.Changes{All: true}
	}
}
