package actors

import (
	"maps"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// openStep remembers who asked for the step that was opened last.
type openStep struct {
	id   undolog.StepID
	from Origin
}

func (s *Session) stepOpen(id undolog.StepID, from Origin) {
	s.asked.Store(&openStep{id, from})
	s.logStep(int64(id), from)
}

// origin returns who asked for the step, if it is the newest.
func (s *Session) origin(id undolog.StepID) Origin {
	if o := s.asked.Load(); o != nil && o.id == id {
		return o.from
	}
	return Origin{}
}

// asker returns who asked for what a question is about: for the command that
// waits, or for the step.
func (s *Session) asker(kind string, id undolog.StepID) Origin {
	if from := s.asking.Load(); kind == messages.KindCommand && from != nil {
		return *from
	}
	return s.origin(id)
}

// deciders counts the frontends that show decisions to a person, by name.
type deciders struct {
	mu sync.Mutex
	by map[string]int
}

// AttachDecider implements [Manager].
func (s *Session) AttachDecider(name string) (detach func()) {
	d := &s.decide
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[string]int{}
	}
	d.by[name]++
	var once sync.Once
	return func() {
		once.Do(func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.by[name]--; d.by[name] == 0 {
				delete(d.by, name)
			}
		})
	}
}

// Deciders implements [Manager].
func (s *Session) Deciders() []string {
	s.decide.mu.Lock()
	defer s.decide.mu.Unlock()
	return slices.Sorted(maps.Keys(s.decide.by))
}

// Done implements [Live].
func (s *Session) Done() <-chan struct{} { return s.closed }
