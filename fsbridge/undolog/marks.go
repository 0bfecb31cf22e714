package undolog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// openMarks reads the marks. Without them the history is whole, so damage is told and no more.
func (l *Log) openMarks() {
	var err error
	if l.marks, err = store.OpenMarks(l.dir.FD()); err != nil {
		l.warn(Warning{Code: WarnDamaged, Message: "the marks of the undo history cannot be read: " + err.Error()})
	}
}

// Mark names the place after the newest closed step. It survives this process, also if that is
// killed. An error that wraps ErrMark says that the name is taken or cannot be one, or that there are
// 256 marks. It may be called at any time, but what an open step did before is not before the mark.
func (l *Log) Mark(name string) error {
	return l.marks.Set(name, l.now(), func() (StepID, uint64) {
		steps := l.seenEntries()
		if len(steps) == 0 {
			return 0, 0
		}
		newest := steps[len(steps)-1]
		return newest.StepID, newest.Seq
	})
}

// Unmark takes a mark away, or returns an error that wraps ErrMark.
func (l *Log) Unmark(name string) error { return l.marks.Delete(name) }

// Marks returns the marks in the order in which they were set. It may be called at any time.
func (l *Log) Marks() []Mark { return l.marks.List() }

// chosenTo returns the steps between here and a mark, the next one last.
func (l *Log) chosenTo(name string, kind taskKind) ([]*stepEntry, error) {
	m, err := l.marks.Find(name)
	if err != nil {
		return nil, err
	}
	steps, redo := l.seenEntries(), l.redoEntries()
	behind := slices.IndexFunc(steps, func(e *stepEntry) bool { return e.Seq > m.Seq }) // steps that came after it
	ahead := slices.IndexFunc(redo, func(e *stepEntry) bool { return e.Seq <= m.Seq })  // undone ones that came before it
	switch {
	case kind == taskUndo && behind >= 0:
		return steps[behind:], nil
	case kind == taskRedo && ahead >= 0:
		return redo[ahead:], nil
	case behind >= 0 || ahead >= 0:
		other := map[taskKind]taskKind{taskUndo: taskRedo, taskRedo: taskUndo}[kind]
		return nil, fmt.Errorf("%w: mark %s is the other way: 'sandbox %s --to %s'", cmp.Or(map[taskKind]error{taskUndo: ErrNothing}[kind], ErrNoRedo), name, other, name)
	case kind == taskUndo:
		return nil, fmt.Errorf("%w: nothing was changed since mark %s", ErrNothing, name)
	}
	return nil, fmt.Errorf("%w: mark %s is here", ErrNoRedo, name)
}
