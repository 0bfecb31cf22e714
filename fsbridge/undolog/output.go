package undolog

import (
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// openOutput finds the kept outputs. Without them the history is whole, so damage is told and no more.
func (l *Log) openOutput() {
	var err error
	if l.outputs, err = store.OpenOutputs(l.dir.FD()); err != nil {
		l.log.Warn("kept output of commands cannot be read", "err", err)
	}
}

// hasStep tells whether the history has the step: as a closed one, an undone one or the open one.
func (l *Log) hasStep(id StepID) bool {
	if cur, open := l.Current(); open && cur == id {
		return true
	}
	is := func(e *stepEntry) bool { return e.StepID == id }
	now := l.known.now()
	return now.cut != nil && is(now.cut) || slices.ContainsFunc(now.steps, is) || slices.ContainsFunc(now.redo, is)
}

// sweepOutput removes the output of steps that the history does not have any more.
func (l *Log) sweepOutput() {
	err := l.outputs.Sweep(func() map[StepID]struct{} {
		known := map[StepID]struct{}{}
		for _, e := range append(l.seenEntries(), l.redoEntries()...) {
			known[e.StepID] = struct{}{}
		}
		if cur, open := l.Current(); open {
			known[cur] = struct{}{}
		}
		return known
	})
	if err != nil {
		l.log.Warn("kept output of commands that are no longer in the history is left", "err", err)
	}
}

// KeepOutput keeps what a command of a step has written, as long as the history has the step. For a step that it does
// not have, because it changed nothing, nothing is kept and nil is returned. If the step is open and turns out to have
// changed nothing, its output goes when it is closed. It may be called at any time.
func (l *Log) KeepOutput(id StepID, o CommandOutput) error {
	if err := l.outputs.Keep(id, o, l.hasStep); err != nil {
		return fmt.Errorf("undolog: output of step %d: %w", id, err)
	}
	return nil
}

// Output returns what the commands of a step wrote, in the order in which they ended: none if nothing was kept. An error wraps
// ErrNoStep if the history does not have the step. It may be called at any time.
func (l *Log) Output(id StepID) ([]CommandOutput, error) {
	if !l.hasStep(id) {
		return nil, fmt.Errorf("%w: %d", ErrNoStep, id)
	}
	return l.outputs.Read(id)
}
