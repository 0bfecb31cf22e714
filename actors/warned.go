package actors

import (
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// shownWarnings is how many of a step's warnings a command's result has.
const shownWarnings = 20

// warn announces what the session has to say about the step that is open, and keeps it for the results of the commands in it.
func (s *Session) warn(e api.Event) {
	e.Type, e.Origin = api.EventWarning, s.origin(e.Step)
	s.warnings.Keep(e)
	s.bus.Emit(e)
}

// warned are the warnings of a step: the session's, and its logs'.
func (s *Session) warned(id undolog.StepID) (lines []string) {
	if id == 0 {
		return nil
	}
	for _, e := range s.warnings.All() {
		if e.Step == id {
			lines = append(lines, e.Message)
		}
	}
	for _, d := range s.dirs {
		for _, w := range d.Warnings() {
			if slices.Contains(w.Steps, id) && !w.Usual {
				lines = append(lines, w.Message)
			}
		}
	}
	return lines[max(0, len(lines)-shownWarnings):]
}
