package undolog

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/past"
)

// Diff writes what step id changed as a unified diff in git's style; id 0
// means everything since the oldest step. For a step that is not the newest,
// the other side is what the next steps found. Binary and large files are only
// named; directories, and what else git does not keep, are told in words. It
// returns ErrNoStep or, where contents are lost, an error wrapping ErrDamaged.
// It may be called at any time, save during an undo; then it may fail.
func (l *Log) Diff(ctx context.Context, id StepID, w io.Writer) error {
	steps := l.seenEntries()
	from, to := 0, len(steps)
	if id != 0 {
		from = slices.IndexFunc(steps, func(e *stepEntry) bool { return e.StepID == id })
		if from < 0 {
			return fmt.Errorf("%w: %d", ErrNoStep, id)
		}
		to = from + 1
	}
	defer l.still()()
	before, closeBefore, err := l.pastOf(steps[from:], true)
	defer closeBefore()
	if err != nil {
		return err
	}
	after, closeAfter, err := l.pastOf(steps[to:], true)
	defer closeAfter()
	if err != nil {
		return err
	}
	before.Edited = l.editedByOthers()
	after.Edited = before.Edited
	paths, err := l.affectedPaths(steps[from:to])
	if err != nil {
		return err
	}
	return past.Diff(ctx, w, before, after, paths)
}

// Content writes what a file held before a step, or after it, to w. Path is relative to the folder. It fails with ErrNoStep,
// fs.ErrNotExist, or says why it cannot be written.
func (l *Log) Content(_ context.Context, id StepID, path string, after bool, w io.Writer) error {
	steps := l.seenEntries()
	from := slices.IndexFunc(steps, func(e *stepEntry) bool { return e.StepID == id })
	if from < 0 {
		return fmt.Errorf("%w: %d", ErrNoStep, id)
	}
	if after {
		from++
	}
	defer l.still()()
	v, closeView, err := l.pastOf(steps[from:], true)
	defer closeView()
	if err != nil {
		return err
	}
	v.Edited = l.editedByOthers()
	return past.Content(v, path, w)
}

// editedByOthers tells what somebody else has changed since the steps; nil: nobody can tell, as a step was interrupted of which there are no stamps.
func (l *Log) editedByOthers() func(dir hostfs.ID, name string, st *hostfs.Stat) bool {
	if l.known.now().cut != nil || l.rollingBack() {
		return nil
	}
	return func(dir hostfs.ID, name string, st *hostfs.Stat) bool {
		if s := l.cur.Load(); s != nil {
			if touched, _ := s.TouchedName(dir, name); touched || s.TouchedInode(st.ID) {
				return false // of that there are no stamps, either
			}
		}
		return l.stamps.EditedAt(dir, name, st)
	}
}

// pastOf shows the folder as it was before the first of steps, which are the
// newest ones; with force also if contents of theirs are lost. The function that it
// returns closes the view, and is never nil.
func (l *Log) pastOf(steps []*stepEntry, force bool) (*past.View, func(), error) {
	v := past.New(l.root)
	for i := len(steps) - 1; i >= 0; i-- {
		if err := l.pushPast(v, steps[i], force); err != nil {
			return nil, v.Close, fmt.Errorf("look through step %d: %w", steps[i].StepID, err)
		}
	}
	return v, v.Close, nil
}

// pushPast adds a step to a view, which closes it.
func (l *Log) pushPast(v *past.View, s *stepEntry, force bool) error {
	dir, err := l.openListed(s)
	if err != nil {
		return err
	}
	of, err := l.loadLayer(layer.Read(dir), s.open, force)
	if err == nil {
		if of.Damage != nil {
			l.log.Warn(of.Damage.Error(), "step_id", s.StepID)
		}
		if of.Rec.Torn != nil && !s.open { // which of the contents are missing is not known
			err = of.Damage
		} else if err = v.Push(of); err == nil {
			return nil
		}
		of.Close()
	}
	_ = dir.Close()
	return err
}

// affectedPaths is what the steps changed.
func (l *Log) affectedPaths(steps []*stepEntry) (*past.Paths, error) {
	out := new(past.Paths)
	for _, e := range steps {
		dir, err := l.openListed(e)
		if err != nil {
			return nil, err
		}
		err = readPaths(e, dir, func(a Affected) error { return out.Add(a.Path) })
		_ = dir.Close()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
