package undolog

import "github.com/codeagent/sandbox/fsbridge"

// Progress is told how much of a long task is done, from one goroutine or several: of an
// undo, a redo or a restore in paths, of a compression in bytes. It must be quick.
type Progress func(done, total int64)

// UndoOptions say what [Log.Undo] or [Log.Redo] shall do.
type UndoOptions struct {
	// Count is the number of steps; below 1 means 1.
	Count int
	// Group, if it is not 0, names all steps of this group instead ([Entry]); NewestGroup is
	// that of the step that is next.
	Group StepID
	// To, if it is not empty, names all steps between here and this mark instead.
	To string
	// Force crosses barriers and, where there are unprotected steps, undoes
	// what can be undone.
	Force bool
	// DryRun changes nothing and tells what would change.
	DryRun bool
	// Careful refuses to do a step again that was rolled back while it was open: somebody may have denied it.
	Careful bool
	// Progress may be nil.
	Progress Progress
}

// NewestGroup in [UndoOptions] is the group of the newest step.
const NewestGroup StepID = -1

// RestoreOptions say what [Log.Restore] shall do.
type RestoreOptions struct {
	// Path is relative to the working folder, in raw bytes.
	Path string
	// Step is the step whose beginning is the wanted state.
	Step   StepID
	Force  bool
	DryRun bool
	// Progress may be nil.
	Progress Progress
}

// ApplyResult says what an undo, a redo or a restore changed.
type ApplyResult struct {
	// Steps are those undone or done again, in the order in which it was done.
	Steps []Entry `json:"steps"`
	// Paths are the first [HistoryPaths] of the PathCount paths that changed.
	Paths     []Affected `json:"paths"`
	PathCount int        `json:"path_count"`
	// Changes are for [fsbridge.Bridge.Invalidate], also if there is an error.
	Changes  fsbridge.Changes `json:"-"`
	Warnings []string         `json:"warnings,omitempty"`
	// Left are the first [MaxLeft] of the LeftCount paths, and parts of them, that could not be put back. What can be
	// later is the newest step then ([Entry].RestOf).
	Left      []Left `json:"left,omitempty"`
	LeftCount int    `json:"left_count,omitempty"`
	// crossed are the paths that were changed outside and that force overwrites, until [ApplyResult.tellCrossed].
	crossed []string
}

// GCOptions say what [Log.GC] shall do.
type GCOptions struct {
	// CompressAll packs the adopted files of every step, the newest too.
	CompressAll bool
	// Discard drops the whole history.
	Discard bool
	// Progress may be nil.
	Progress Progress
}
