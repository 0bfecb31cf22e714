package actors

import (
	"context"

	"github.com/codeagent/sandbox/messages"
)

// sessionToken keeps the tokens of a session's own questions apart from those of a folder's
// Interceptor, which counts from 1.
const sessionToken = 1 << 63

// decided puts a question of the session's own and returns the answer. When ctx ends, it takes
// the question back and returns the context's error; when the session ends, ErrStopped.
// It sets the token and where the answer goes, and may be called concurrently.
func (s *Session) decided(ctx context.Context, question *messages.Ask) (*messages.Answer, error) {
	answered := make(chan *messages.Answer, 1)
	question.Token = sessionToken | s.questions.Add(1)
	question.Answer = func(m any) {
		if a, ok := m.(*messages.Answer); ok {
			select {
			case answered <- a:
			default: // the first one counts: a crash may deny what was denied already
			}
		}
	}
	s.asks()(question)
	select {
	case a := <-answered:
		return a, nil
	case <-ctx.Done():
		s.to("safeguard")(&messages.Withdraw{Directory: question.Directory, Token: question.Token})
		return nil, ctx.Err()
	case <-s.stopped:
		return nil, messages.ErrStopped
	}
}

// attribute notes the command whose process asks, if several run and it can be found out.
func (s *Session) attribute(question *messages.Ask) {
	if question.From != (messages.Asker{}) {
		return
	}
	if o := s.inside.of(question.Callers); o != nil {
		question.From, question.Command = messages.Asker(o.open.From), o.open.Info.Command
	}
}

// openCommand is the command of the step that is open; empty if none is.
func (s *Session) openCommand() string {
	if now := s.board.Load(); now.Step != 0 && now.Newest.Step == now.Step {
		return now.Newest.Command
	}
	return ""
}

// asks is where questions go.
func (s *Session) asks() messages.Tell {
	safeguard := s.to("safeguard")
	return func(m any) {
		if question, ok := m.(*messages.Ask); ok {
			s.attribute(question)
		}
		safeguard(m)
	}
}
