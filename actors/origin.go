package actors

import (
	"context"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// origin returns who asked for the step, if it is the newest.
func (s *Session) origin(id undolog.StepID) api.Origin { return s.board.Load().Origin(id) }

// asker returns who asked for what a question is about: for a command that
// waits, or for the step.
func (s *Session) asker(from messages.Asker, id undolog.StepID) api.Origin {
	if from != (messages.Asker{}) {
		return api.Origin(from)
	}
	return s.origin(id)
}

// AttachDecider implements [api.Manager].
func (s *Session) AttachDecider(name string) (detach func()) {
	tell := func(gone bool) {
		// It fails only when the session has ended, and nobody asks any more.
		_, _ = ask(context.Background(), s, "", func(r *messages.Reply[struct{}]) any {
			return &session.Decides{Frontend: name, Gone: gone, Reply: r}
		})
	}
	tell(false)
	return sync.OnceFunc(func() { tell(true) })
}

// Deciders implements [api.Manager].
func (s *Session) Deciders() []string { return s.board.Load().Deciders() }

// attended reports whether somebody can answer a question that is asked now.
func (s *Session) attended() bool {
	return s.cfg.Attended == nil || s.askers.Load() > 0 || len(s.Deciders()) > 0 || s.cfg.Attended()
}

// Done implements [api.Live].
func (s *Session) Done() <-chan struct{} { return s.closed }
