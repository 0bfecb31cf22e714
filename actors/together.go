package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// History is a folder's history, as far as it is needed here. An [api.Service] is one.
type History interface {
	History(ctx context.Context, r api.HistoryRequest) ([]undolog.Entry, error)
	Undo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error)
	Redo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error)
}

// Folder is one of the folders whose steps may belong together.
type Folder struct {
	Path string
	History
}

// way is in which direction: undo or redo.
type way struct {
	undo bool
	none error // there is no step to take
}

// do is what the way asks of a folder alone.
func (w way) do(ctx context.Context, f Folder, r api.UndoRequest) (api.UndoResult, error) {
	r.Directory, r.Exact = f.Path, true
	if w.undo {
		return f.Undo(ctx, r)
	}
	return f.Redo(ctx, r)
}

// UndoTogether undoes steps of the first folder, and what the same commands changed in the others: all of it, or nothing.
func UndoTogether(ctx context.Context, folders []Folder, r api.UndoRequest) (api.UndoResult, error) {
	return travel(ctx, folders, r, way{undo: true, none: undolog.ErrNothing})
}

// RedoTogether takes such an undo back.
func RedoTogether(ctx context.Context, folders []Folder, r api.UndoRequest) (api.UndoResult, error) {
	return travel(ctx, folders, r, way{none: undolog.ErrNoRedo})
}

// attempts is how often the histories are looked at: what was left behind may go on writing steps.
const attempts = 5

func travel(ctx context.Context, folders []Folder, r api.UndoRequest, w way) (api.UndoResult, error) {
	if r.Exact {
		return w.do(ctx, folders[0], r)
	}
	if r.OnlyFolder {
		folders = folders[:1]
	}
	for range attempts {
		var (
			tasks []task
			err   error
		)
		if r.Group != 0 || r.To != "" {
			tasks, err = w.named(ctx, folders, r)
		} else {
			tasks, err = w.next(ctx, folders, r)
		}
		if err != nil {
			return api.UndoResult{}, err
		}
		res, err := w.all(ctx, tasks)
		if !errors.Is(err, errMoved) {
			return res, err
		}
	}
	return api.UndoResult{}, fmt.Errorf("%w: other steps are made all the time", undolog.ErrBusy)
}

// errMoved: other steps are next than were when the histories were looked at.
var errMoved = errors.New("the history has changed meanwhile")

// task is what one folder has to do.
type task struct {
	Folder
	ask    api.UndoRequest
	expect []undolog.StepID // in this order; nil: whatever is asked for by name
}

// asExpected tells whether the steps that were found are those that were expected.
func (t *task) asExpected(found []undolog.Entry) bool {
	return t.expect == nil || slices.EqualFunc(t.expect, found, func(id undolog.StepID, e undolog.Entry) bool { return id == e.StepID })
}

// named are the tasks of an agent's run, or of all steps up to a mark. A folder without any of them has nothing to do.
func (w way) named(ctx context.Context, folders []Folder, r api.UndoRequest) (tasks []task, err error) {
	try := func(f Folder, group undolog.StepID) (api.UndoResult, error) {
		return w.do(ctx, f, api.UndoRequest{Group: group, To: r.To, Force: true, DryRun: true})
	}
	for _, f := range folders {
		if r.Group != undolog.NewestGroup {
			break
		}
		found, err := try(f, r.Group)
		switch {
		case err == nil && len(found.Steps) > 0:
			r.Group = found.Steps[0].Group
		case !togetherAbsent(err):
			return nil, err
		}
	}
	var missing error
	for i, f := range folders {
		switch _, err := try(f, r.Group); {
		case togetherAbsent(err), i > 0 && errors.Is(err, undolog.ErrMark):
			missing = errors.Join(missing, err)
		case err != nil:
			return nil, in(f, err)
		default:
			tasks = append(tasks, task{Folder: f, ask: r})
		}
	}
	if len(tasks) == 0 {
		return nil, missing
	}
	return tasks, nil
}

// togetherAbsent tells whether a folder has nothing of what is asked for.
func togetherAbsent(err error) bool {
	return errors.Is(err, undolog.ErrNoStep) || errors.Is(err, undolog.ErrNothing) || errors.Is(err, undolog.ErrNoRedo)
}

// in says in which of several folders something went wrong.
func in(f Folder, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", f.Path, err)
}

// all carries the tasks out, or none of them. What was interrupted in a folder is completed first.
func (w way) all(ctx context.Context, tasks []task) (res api.UndoResult, err error) {
	if len(tasks) == 1 {
		return w.do(ctx, tasks[0].Folder, tasks[0].ask)
	}
	var halves, rest []task
	for _, t := range tasks { // what one of them refuses, none does
		trial := t.ask
		trial.DryRun, trial.Progress = true, nil
		found, err := w.do(ctx, t.Folder, trial)
		switch {
		case errors.Is(err, undolog.ErrInterrupted) && t.ask.DryRun:
			return api.UndoResult{}, in(t.Folder, err)
		case errors.Is(err, undolog.ErrInterrupted):
			halves = append(halves, t)
			continue
		case err != nil:
			return api.UndoResult{}, refused(tasks, t, err)
		}
		rest = append(rest, t)
		if !t.asExpected(found.Steps) {
			return api.UndoResult{}, errMoved
		}
		res = merged(res, found)
	}
	if tasks[0].ask.DryRun {
		return res, nil
	}
	return w.carryOut(context.WithoutCancel(ctx), append(halves, rest...), len(halves)) // half of it is worse than too late
}

// carryOut does what no folder refused. Of the first folders, so many, an undo was interrupted: the next one completes it, and
// counts it if it is the same. If it was another, all is looked at again.
func (w way) carryOut(ctx context.Context, tasks []task, halves int) (res api.UndoResult, err error) {
	var counts []int
	for i, t := range tasks {
		one, err := w.do(ctx, t.Folder, t.ask)
		counts = append(counts, len(one.Steps))
		if err != nil {
			return api.UndoResult{}, errors.Join(in(t.Folder, err), w.takeBack(ctx, tasks, counts))
		}
		if i < halves && !t.asExpected(one.Steps) {
			return api.UndoResult{}, errMoved
		}
		res = merged(res, one)
	}
	return res, nil
}

// refused says that one folder's refusal left the others as they are, too.
func refused(tasks []task, t task, err error) error {
	return fmt.Errorf("%w: in %s, and so nothing was changed in the other %d folder(s) that the step belongs to; --only-folder takes one of them alone",
		err, t.Path, len(tasks)-1)
}

// takeBack takes back what was done in the first folders: so many steps in each.
func (w way) takeBack(ctx context.Context, tasks []task, counts []int) (err error) {
	back := way{undo: !w.undo}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if _, berr := back.do(ctx, tasks[i].Folder, api.UndoRequest{Count: n, Force: true}); berr != nil {
			err = errors.Join(err, fmt.Errorf("%s is not as it was before: %w", tasks[i].Path, berr))
		}
	}
	return err
}

// merged adds what was done in another folder to a result.
func merged(a, b api.UndoResult) api.UndoResult {
	if a.Directory == "" {
		return b
	}
	a.Also = append(a.Also, b)
	return a
}
