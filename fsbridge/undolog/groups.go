package undolog

import (
	"fmt"
	"slices"
)

// groups says of an entry that is about to be kept whether it is the first of its group: no
// step before it is kept, nor was one pushed out. Groups do not outlive the process that has
// made them, so what was pushed out of the one that goes on is known.
func (l *Log) groups(e *Entry) {
	if e.Group == 0 {
		return
	}
	_, cut := l.cut[e.Group]
	e.GroupStart = !cut && !slices.ContainsFunc(l.stepEntries(), func(s *stepEntry) bool { return s.Group == e.Group })
}

// cutGroup notes that a step of the group was pushed out.
func (l *Log) cutGroup(group StepID) {
	if group == 0 {
		return
	}
	if l.cut == nil {
		l.cut = make(map[StepID]struct{})
	}
	l.cut[group] = struct{}{}
}

// chosenGroup returns the steps of a group, the next one last, with what was written
// between them. All must be there, and nothing may come before them.
func chosenGroup(from []*stepEntry, group StepID, kind taskKind, none error) ([]*stepEntry, error) {
	next := from[len(from)-1]
	if group == NewestGroup {
		if group = next.Group; group == 0 {
			return nil, fmt.Errorf("%w: the next step, %d, is of no agent's run; without --group it goes alone", none, next.StepID)
		}
	}
	in := func(e *stepEntry) bool { return e.Group == group }
	first := slices.IndexFunc(from, in)
	if first < 0 {
		return nil, fmt.Errorf("%w: no step of run %d is kept here", ErrNoStep, group)
	}
	if next.Group != group {
		n := slices.IndexFunc(newestFirst(from), in)
		return nil, fmt.Errorf("%w: %d step(s) come before those of run %d, the next is %d; 'sandbox %s %d' takes them first", ErrGroup, n, group, next.StepID, kind, n)
	}
	if kind == taskUndo && !from[first].GroupStart {
		return nil, fmt.Errorf("%w: the first steps of run %d were pushed out of the history; 'sandbox undo %d' takes back what is left of it", ErrGroup, group, len(from)-first)
	}
	return from[first:], nil
}

func newestFirst(list []*stepEntry) []*stepEntry {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// chosen returns the steps that are next, the first one last.
func (l *Log) chosen(kind taskKind, o UndoOptions, count int) ([]*stepEntry, error) {
	if o.To != "" {
		return l.chosenTo(o.To, kind)
	}
	from, none := l.seenEntries(), ErrNothing
	if kind == taskRedo {
		from, none = l.redoEntries(), ErrNoRedo
	}
	if len(from) == 0 {
		return nil, none
	}
	if o.Group != 0 {
		return chosenGroup(from, o.Group, kind, none)
	}
	if o.Force { // what an earlier undo had to leave is tried as well, but stands in nobody's way
		for i := len(from) - 1; i >= 0 && i >= len(from)-count; i-- {
			if from[i].RestOf != 0 && !slices.ContainsFunc(from[i].Left, isChanged) && count < len(from) {
				count++
			}
		}
	}
	if count > len(from) {
		return nil, fmt.Errorf("%w: %d step(s) are kept, %d asked for", none, len(from), count)
	}
	return from[len(from)-count:], nil
}
