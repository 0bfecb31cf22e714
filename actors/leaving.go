package actors

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// leaving says when a command leaves its step while it runs on. Nil: it does not.
type leaving struct {
	after time.Duration // from its start
	left  func(api.RunResult)
}

// while returns when the command has ended. If that takes longer than it may stay, the command leaves its step: the step ends for it as if it had ended, and what it writes later belongs to the step that is open then.
func (l *leaving) while(ctx context.Context, s *Session, out *outer, p hypervisor.Process) (hypervisor.ExitStatus, error) {
	ctx = context.WithoutCancel(ctx)
	if l == nil {
		return p.Wait(ctx)
	}
	type ended struct {
		status hypervisor.ExitStatus
		err    error
	}
	over, due := make(chan ended, 1), make(chan struct{})
	defer s.clock.AfterFunc(l.after, func() { close(due) })()
	go func() {
		st, err := p.Wait(ctx)
		over <- ended{st, err}
	}()
	select {
	case e := <-over:
		return e.status, e.err
	case <-due:
	}
	s.depart(out)
	l.left(out.res)
	e := <-over
	return e.status, e.err
}

// depart ends the command's part in its step.
func (s *Session) depart(out *outer) {
	if lease := s.inside.leave(out); lease != nil { // else a program in it has the folders just now
		// What fails has been told to the step's others, and ends the command.
		out.res, _ = s.finish(lease, out.open.Info.Command, out.open.From, hypervisor.ExitStatus{}, ending{
			outcome: messages.OutcomeCompleted, unstarted: true, group: s.inside.group(),
		})
		s.steps.Leave(lease)
	}
	out.gone = true
}
