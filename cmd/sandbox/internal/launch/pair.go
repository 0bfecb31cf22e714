package launch

import (
	"context"
	"errors"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// travel is Undo or Redo of a service.
type travel func(api.Service, context.Context, api.UndoRequest) (api.UndoResult, error)

// Undo undoes the newest steps of a folder, and of the git directory of its worktree what
// the same commands changed there. Without such a directory, or if a flag has chosen one
// folder, it is the service's own.
func (l *Launcher) Undo(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return l.together(ctx, s, d, r, api.Service.Undo, api.Service.Redo, func(a, b undolog.Entry) bool { return a.StartedAt.After(b.StartedAt) })
}

// Redo takes such an undo back.
func (l *Launcher) Redo(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return l.together(ctx, s, d, r, api.Service.Redo, api.Service.Undo, func(a, b undolog.Entry) bool { return a.StartedAt.Before(b.StartedAt) })
}

func (l *Launcher) together(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest, do, back travel, first func(a, b undolog.Entry) bool) (res api.UndoResult, err error) {
	r.Directory = d.Path
	partner, ok := l.Partner(d)
	if !ok || r.AbortOpen {
		return do(s, ctx, r)
	}
	git, err := l.ServiceOf(ctx, partner)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, git.Close(ctx)) }()
	p := pair{folder: d.Path, sides: []side{{s, d.Path}, {git, partner.Path}}, do: do, back: back, first: first}
	if r.Group != 0 || r.To != "" {
		return p.whole(ctx, r)
	}
	if r.DryRun { // it does not change what comes next: only one step can be foretold
		r.Count = 1
	}
	for range max(r.Count, 1) {
		one, err := p.step(ctx, r)
		res = merged(res, one)
		if err != nil {
			return res, err
		}
	}
	return res, nil
}

// side is one of the two histories.
type side struct {
	service api.Service
	path    string
}

// pair is the history of a folder with that of its git directory.
type pair struct {
	folder string
	sides  []side
	do     travel
	back   travel // takes that back
	first  func(a, b undolog.Entry) bool
}

// step does the next step: on both sides if both took part in it.
func (p pair) step(ctx context.Context, r api.UndoRequest) (res api.UndoResult, err error) {
	heads := make([]*undolog.Entry, len(p.sides))
	for i, s := range p.sides {
		found, err := p.do(s.service, ctx, api.UndoRequest{Directory: s.path, Count: 1, Force: true, DryRun: true})
		if errors.Is(err, undolog.ErrNothing) || errors.Is(err, undolog.ErrNoRedo) || err == nil && len(found.Steps) == 0 {
			continue
		}
		if err != nil {
			return res, err
		}
		heads[i] = &found.Steps[0]
	}
	if heads[1] != nil && !within(heads[1].Dir, p.folder) {
		heads[1] = nil // of another worktree
	}
	var chosen []side
	switch a, b := heads[0], heads[1]; {
	case a != nil && b != nil && a.StepID == b.StepID && a.Dir == b.Dir && slices.Equal(a.Argv, b.Argv):
		chosen = p.sides
	case b == nil || a != nil && p.first(*a, *b):
		chosen = p.sides[:1]
	default:
		chosen = p.sides[1:]
	}
	if len(chosen) > 1 && !r.DryRun { // what one of them refuses, neither does
		for _, s := range chosen {
			if _, err := p.do(s.service, ctx, api.UndoRequest{Directory: s.path, Count: 1, Force: r.Force, DryRun: true}); err != nil {
				return res, err
			}
		}
	}
	for _, s := range chosen {
		one, err := p.do(s.service, ctx, api.UndoRequest{Directory: s.path, Count: 1, Force: r.Force, DryRun: r.DryRun, Wait: r.Wait})
		res = merged(res, one)
		if err != nil {
			return res, err
		}
	}
	return res, nil
}

// Mark does what r asks for, also in the git directory of the folder's worktree.
func (l *Launcher) Mark(ctx context.Context, s api.Service, d api.Directory, r api.MarkRequest) ([]undolog.Mark, error) {
	list, err := s.Mark(ctx, r)
	partner, ok := l.Partner(d)
	if err != nil || !ok || r.Name == "" {
		return list, err
	}
	git, err := l.ServiceOf(ctx, partner)
	if err != nil {
		return list, err
	}
	r.Directory = partner.Path
	_, err = git.Mark(ctx, r)
	return list, errors.Join(err, git.Close(ctx))
}

// whole does all steps of a group, or up to a mark, on both sides or on none. A side without the group
// has nothing to do.
func (p pair) whole(ctx context.Context, r api.UndoRequest) (res api.UndoResult, err error) {
	try := func(s side, group undolog.StepID) (api.UndoResult, error) {
		return p.do(s.service, ctx, api.UndoRequest{Directory: s.path, Group: group, To: r.To, Force: r.Force, DryRun: true})
	}
	for _, s := range p.sides {
		if r.Group != undolog.NewestGroup {
			break
		}
		var found api.UndoResult
		if found, err = try(s, r.Group); err == nil && len(found.Steps) > 0 {
			r.Group = found.Steps[0].Group
		} else if !absent(err) {
			return res, err
		}
	}
	var chosen []side
	for _, s := range p.sides {
		found, terr := try(s, r.Group)
		switch {
		case absent(terr):
			err = errors.Join(err, terr)
			continue
		case terr != nil:
			return res, terr
		case r.DryRun:
			res = merged(res, found)
		}
		chosen = append(chosen, s)
	}
	switch {
	case len(chosen) == 0:
		return res, err
	case r.DryRun:
		return res, nil
	}
	return p.all(ctx, r, chosen)
}

// absent tells whether an undo of a group found nothing of it.
func absent(err error) bool {
	return errors.Is(err, undolog.ErrNoStep) || errors.Is(err, undolog.ErrNothing) || errors.Is(err, undolog.ErrNoRedo)
}

// all does r on the sides, or on none.
func (p pair) all(ctx context.Context, r api.UndoRequest, sides []side) (res api.UndoResult, err error) {
	var counts []int
	for _, s := range sides {
		r.Directory = s.path
		one, err := p.do(s.service, ctx, r)
		if err == nil {
			res, counts = merged(res, one), append(counts, len(one.Steps))
			continue
		}
		for i, n := range counts {
			_, back := p.back(sides[i].service, ctx, api.UndoRequest{Directory: sides[i].path, Count: n, Force: true})
			err = errors.Join(err, back)
		}
		return api.UndoResult{}, err
	}
	return res, nil
}

// merged adds what was done in another folder, or by another step, to a result.
func merged(a, b api.UndoResult) api.UndoResult {
	if a.Directory == "" {
		return b
	}
	if a.Directory != b.Directory {
		for i := range a.Also {
			if a.Also[i].Directory == b.Directory {
				a.Also[i] = merged(a.Also[i], b)
				return a
			}
		}
		a.Also = append(a.Also, b)
		return a
	}
	a.Steps = append(a.Steps, b.Steps...)
	a.Paths, a.PathCount = append(a.Paths, b.Paths...), a.PathCount+b.PathCount
	a.Warnings, a.Took = append(a.Warnings, b.Warnings...), a.Took+b.Took
	return a
}
