package actors

import (
	"context"
	"errors"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// others are the other folders that belong together with w and have a history; with only, none.
func (s *Session) others(w *directory.Directory, only bool) (list []*directory.Directory) {
	for _, d := range s.dirs {
		if !only && directory.Together(w, d) && d.Usable() == nil {
			list = append(list, d)
		}
	}
	return list
}

// travel undoes or redoes steps as a whole: in all folders that belong together, or in none. Nothing else
// comes between.
func (s *Session) travel(ctx context.Context, how applied, r api.UndoRequest,
	do func(context.Context, []Folder, api.UndoRequest) (api.UndoResult, error)) (api.UndoResult, error) {
	return s.inTurn(ctx, how, func(w *directory.Directory) (api.UndoResult, error) {
		folders := []Folder{{Path: w.Config.Path, History: alone{s, w}}}
		for _, o := range s.others(w, r.OnlyFolder || r.Exact) {
			folders = append(folders, Folder{Path: o.Config.Path, History: alone{s, o}})
		}
		return do(ctx, folders, r)
	})
}

// alone is the history of one folder, for who has a lease.
type alone struct {
	s *Session
	d *directory.Directory
}

// History implements [History].
func (a alone) History(_ context.Context, r api.HistoryRequest) ([]undolog.Entry, error) {
	return a.d.History(r.Limit, r.Undone)
}

// Undo implements [History].
func (a alone) Undo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return a.s.timed(a.d, r.DryRun, func() (*undolog.ApplyResult, error) { return a.d.Undo(ctx, optionsOf(r)) })
}

// Redo implements [History].
func (a alone) Redo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return a.s.timed(a.d, r.DryRun, func() (*undolog.ApplyResult, error) { return a.d.Redo(ctx, optionsOf(r)) })
}

func optionsOf(r api.UndoRequest) undolog.UndoOptions {
	return undolog.UndoOptions{Count: r.Count, Group: r.Group, To: r.To, Force: r.Force, DryRun: r.DryRun, Careful: r.Careful, Progress: r.Progress}
}

// timed makes a result of what is done to a folder.
func (s *Session) timed(w *directory.Directory, dry bool, do func() (*undolog.ApplyResult, error)) (api.UndoResult, error) {
	begin := s.clock.Now()
	res, err := do()
	u := api.UndoResult{Directory: w.Config.Path, DryRun: dry, Took: s.clock.Now().Sub(begin)}
	if res != nil {
		u.Steps, u.Paths, u.PathCount, u.Warnings = res.Steps, res.Paths, res.PathCount, res.Warnings
		u.Left, u.LeftCount = res.Left, res.LeftCount
	}
	return u, err
}

// tellUndone tells programs inside which steps were undone, each once.
func (s *Session) tellUndone(u api.UndoResult) {
	told := map[undolog.StepID]bool{}
	for _, part := range append([]api.UndoResult{u}, u.Also...) {
		for _, e := range part.Steps {
			if !told[e.StepID] {
				s.notifyGuest(e.StepID)
			}
			told[e.StepID] = true
		}
	}
}

// Mark implements [api.Service].
func (s *Session) Mark(ctx context.Context, r api.MarkRequest) ([]undolog.Mark, error) {
	w, err := s.history(r.Directory)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Name == "":
	case r.Delete:
		err = w.Log.Unmark(r.Name)
		for _, o := range s.others(w, r.OnlyFolder) { // where it may not be
			_ = o.Log.Unmark(r.Name)
		}
	default:
		var lease *step.Lease
		if lease, err = s.lease(ctx, applied{}); err != nil {
			return nil, err
		}
		defer s.steps.Leave(lease)
		err = markAll(ctx, append([]*directory.Directory{w}, s.others(w, r.OnlyFolder)...), r.Name)
	}
	return w.Log.Marks(), err
}

// markAll sets a mark in all folders, or in none.
func markAll(ctx context.Context, dirs []*directory.Directory, name string) error {
	for i, d := range dirs {
		if err := d.Mark(ctx, name); err != nil {
			for _, done := range dirs[:i] {
				err = errors.Join(err, done.Log.Unmark(name))
			}
			return err
		}
	}
	return nil
}
