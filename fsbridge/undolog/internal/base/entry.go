package base

// Affect puts the first [HistoryPaths] of list into the entry, and their number.
func (e *Entry) Affect(list []Affected) {
	e.AffectedCount, e.AffectedPaths = len(list), []string{}
	for _, a := range list[:min(len(list), HistoryPaths)] {
		e.AffectedPaths = append(e.AffectedPaths, a.Path)
	}
}
