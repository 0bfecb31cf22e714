package actors

import (
	"slices"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// shownWarnings is how many of a step's warnings a command's result has, and keptWarnings how many of all steps are kept.
const (
	shownWarnings = 20
	keptWarnings  = 256
)

// stepWarnings are what the session has warned of while a step was open, the newest last. Its methods are safe for concurrent use.
type stepWarnings struct {
	mu   sync.Mutex
	list []api.Event
}

func (w *stepWarnings) keep(e api.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) == keptWarnings {
		w.list = slices.Delete(w.list, 0, 1)
	}
	w.list = append(w.list, e)
}

func (w *stepWarnings) of(id undolog.StepID) (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.list {
		if e.Step == id {
			lines = append(lines, e.Message)
		}
	}
	return lines
}

// warn announces what the session has to say about the step that is open, and keeps it for the results of the commands in it.
func (s *Session) warn(e api.Event) {
	e.Type, e.Origin = api.EventWarning, s.origin(e.Step)
	s.warnings.keep(e)
	s.bus.Emit(e)
}

// warned are the warnings of a step: the session's, and its logs'.
func (s *Session) warned(id undolog.StepID) []string {
	if id == 0 {
		return nil
	}
	lines := s.warnings.of(id)
	for _, d := range s.dirs {
		for _, w := range d.Warnings() {
			if slices.Contains(w.Steps, id) {
				lines = append(lines, w.Message)
			}
		}
	}
	return lines[max(0, len(lines)-shownWarnings):]
}
