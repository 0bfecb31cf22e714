package actors

import (
	"context"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/lexical"
)

// course are the steps of a folder that can be taken, the next one first, of which so many will be.
type course struct {
	Folder
	steps []undolog.Entry
	taken int
}

func (c *course) left() []undolog.Entry { return c.steps[c.taken:] }

// next are the tasks of the next steps of the first folder. Steps of the other folders are its own, too, if
// their commands ran in it: a 'git commit' in a worktree changes nothing but the git directory.
func (w way) next(ctx context.Context, folders []Folder, r api.UndoRequest) ([]task, error) {
	courses := make([]*course, len(folders))
	for i, f := range folders {
		entries, err := f.History.History(ctx, api.HistoryRequest{Directory: f.Path, Undone: !w.undo})
		if err != nil {
			return nil, in(f, err)
		}
		courses[i] = &course{Folder: f, steps: w.steps(entries)}
	}
	for n := range max(r.Count, 1) {
		switch found, err := w.one(courses); {
		case err != nil:
			return nil, err
		case !found && len(folders) == 1: // its log may have begun what is asked for, and says why not
			return []task{{Folder: folders[0], ask: r}}, nil
		case !found && n > 0:
			return nil, fmt.Errorf("%w: %d step(s) are kept, %d asked for", w.none, n, r.Count)
		case !found:
			return nil, w.none
		}
	}
	var tasks []task
	for _, c := range courses {
		if c.taken > 0 {
			ask := r
			ask.Count = c.taken
			tasks = append(tasks, task{c.Folder, ask, idsOf(c.steps[:c.taken])})
		}
	}
	return tasks, nil
}

func idsOf(steps []undolog.Entry) []undolog.StepID {
	ids := make([]undolog.StepID, len(steps))
	for i, e := range steps {
		ids[i] = e.StepID
	}
	return ids
}

// steps are those that can be taken, the next one first.
func (w way) steps(history []undolog.Entry) []undolog.Entry {
	steps := slices.DeleteFunc(history, func(e undolog.Entry) bool { return e.Type == undolog.TypeBarrier || e.Undone == w.undo })
	if !w.undo {
		slices.Reverse(steps)
	}
	return steps
}

// one takes the next step of the first folder, wherever its command has changed something, and with it those that only
// looked: an undo takes those that came after it, and a redo brings them back with it.
func (w way) one(courses []*course) (bool, error) {
	for {
		step := w.first(courses)
		if step == nil {
			return false, nil
		}
		looked := looksOnly(courses, step)
		if err := w.takeAll(courses, step); err != nil {
			return false, err
		}
		if !looked || !w.undo || !slices.ContainsFunc(courses, (*course).changes) {
			break
		}
	}
	for step := w.first(courses); !w.undo && step != nil && looksOnly(courses, step); step = w.first(courses) {
		if err := w.takeAll(courses, step); err != nil {
			return false, err
		}
	}
	return true, nil
}

// first is the step of the first folder that comes next, or nil.
func (w way) first(courses []*course) (next *undolog.Entry) {
	for i, c := range courses {
		left := c.left()
		if i > 0 {
			left = left[written(left):]
		}
		if len(left) == 0 || i > 0 && !lexical.Within(left[0].Dir, courses[0].Path) {
			continue
		}
		if next == nil || w.undo == left[0].StartedAt.After(next.StartedAt) {
			next = &left[0]
		}
	}
	return next
}

// changes tells whether a step is left that did more than to look.
func (c *course) changes() bool {
	return slices.ContainsFunc(c.left(), func(e undolog.Entry) bool { return !e.LooksOnly })
}

// looksOnly tells whether a step only looked, in all folders.
func looksOnly(courses []*course, step *undolog.Entry) bool {
	for _, c := range courses {
		if slices.ContainsFunc(c.left(), func(e undolog.Entry) bool { return same(&e, step) && !e.LooksOnly }) {
			return false
		}
	}
	return true
}

// takeAll has each folder take its part of a step.
func (w way) takeAll(courses []*course, step *undolog.Entry) error {
	for i, c := range courses {
		found, err := w.take(c, step)
		if err != nil {
			return err
		}
		if found && i > 0 && !w.undo { // as an undo takes them
			c.taken += written(c.left())
		}
	}
	return nil
}

// take has a folder take its part of a step, if it has one.
func (w way) take(c *course, step *undolog.Entry) (bool, error) {
	left := c.left()
	at := slices.IndexFunc(left, func(e undolog.Entry) bool { return same(&e, step) })
	switch {
	case at < 0:
		return false, nil
	case at > written(left):
		return false, fmt.Errorf("%w: step %d changed %s, too, where %d step(s) come before it, the next is %d; take those first (-C %s), or one folder alone (--only-folder)",
			undolog.ErrGroup, step.StepID, c.Path, at, left[0].StepID, c.Path)
	default:
		c.taken += at + 1
		return true, nil
	}
}

// written is how many steps come first that no command made: what was left behind wrote them, and they go with the
// step before.
func written(steps []undolog.Entry) int {
	n := slices.IndexFunc(steps, func(e undolog.Entry) bool { return e.Type != undolog.TypeAmbient })
	if n < 0 {
		return len(steps)
	}
	return n
}

// same tells whether two folders' steps are one: the same number, for the same command, at the same time.
func same(a, b *undolog.Entry) bool {
	if a == b || a.Seq == b.Seq && a.StepID == b.StepID && a.StartedAt.Equal(b.StartedAt) {
		return true
	}
	return a.StepID == b.StepID && a.StepID > 0 && a.Type == b.Type && a.Dir == b.Dir && a.Command == b.Command && slices.Equal(a.Argv, b.Argv) &&
		!a.StartedAt.After(b.EndedAt) && !b.StartedAt.After(a.EndedAt)
}
