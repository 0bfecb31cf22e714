package format

import "slices"

// Affect puts the first [HistoryPaths] of list into the entry, and their number.
func (e *Entry) Affect(list []Affected) {
	e.AffectedCount, e.AffectedPaths = len(list), []string{}
	for _, a := range list[:min(len(list), HistoryPaths)] {
		e.AffectedPaths = append(e.AffectedPaths, a.Path)
	}
}

// NotKept says that the content of a file is left because the step did not keep it.
func NotKept(path string) Left {
	return Left{Path: path, What: "content", Reason: "it was not kept: it would have taken more than the step may keep", NotKept: true}
}

// StillNotKept are the files that e did not keep and that list does not name: a step that was redone has nothing of
// them in its records.
func (e *Entry) StillNotKept(list []Left) (out []Left) {
	for _, path := range e.NotKept {
		if !slices.ContainsFunc(list, func(x Left) bool { return x.Path == path && x.NotKept }) {
			out = append(out, NotKept(path))
		}
	}
	return out
}
