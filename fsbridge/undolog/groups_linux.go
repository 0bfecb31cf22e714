package undolog

import "slices"

// groups says of an entry that is about to be kept whether it is the first of its group.
// Groups do not outlive the process that has made them, so what was evicted of the one
// that goes on is known.
func (l *Log) groups(e *Entry) {
	if e.Group == 0 {
		return
	}
	known := slices.ContainsFunc(l.stepEntries(), func(s *stepEntry) bool { return s.Group == e.Group })
	e.GroupStart = !known && l.grouped != e.Group
	l.grouped = e.Group
}
