package actors

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// newServices makes the set of services.
func (s *Session) newServices() *services {
	return newService(serviceOptions{
		Exec: s.startCommand, Number: func() int64 { return s.commands.Add(1) }, Clock: s.clock,
		Busy:    s.busy,
		Publish: s.publishFor,
		Ended: func(st api.ServiceStatus) {
			s.bus.Emit(api.Event{Type: api.EventServiceEnded, Directory: s.around(st.Dir), Command: st.Command, ExitCode: st.ExitCode, Service: &st})
		},
	})
}

// StartService implements [api.Services].
func (s *Session) StartService(ctx context.Context, r api.ServiceRequest) (api.ServiceStatus, error) {
	if s.cfg.Runtime == nil {
		return api.ServiceStatus{}, messages.ErrNoMachine
	}
	if r.Dir == "" {
		r.Dir = s.dirs[0].Config.Path
	}
	if !filepath.IsAbs(r.Dir) || !slices.ContainsFunc(s.dirs, func(w *directory.Directory) bool { return lexical.Within(r.Dir, w.Config.Path) }) {
		return api.ServiceStatus{}, fmt.Errorf("%w: %s is in no working folder of the session", api.ErrOutside, r.Dir)
	}
	st, err := s.services.Start(ctx, r)
	if err == nil {
		s.bus.Emit(api.Event{Type: api.EventServiceStarted, Directory: s.around(st.Dir), Command: st.Command, Service: &st})
	}
	return st, err
}

// Services implements [api.Services].
func (s *Session) Services(ctx context.Context) ([]api.ServiceStatus, error) {
	all := s.services.List()
	if s.cfg.Runtime == nil {
		return all, nil
	}
	commands, err := s.owned.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		if c.Service != "" {
			all = append(all, asService(c))
		}
	}
	slices.SortStableFunc(all, func(a, b api.ServiceStatus) int { return a.StartedAt.Compare(b.StartedAt) })
	return all, nil
}

// asCommand is the number of the command of the session that a service of that name is, if no other service has it.
func (s *Session) asCommand(name string) (int64, bool) {
	n, is := numberOf(name)
	if !is || s.cfg.Runtime == nil {
		return 0, false
	}
	_, err := s.services.find(name)
	return n, err != nil
}

// ServiceOutput implements [api.Services].
func (s *Session) ServiceOutput(ctx context.Context, r api.ServiceOutputRequest) (api.ServiceOutput, error) {
	if n, is := s.asCommand(r.Name); is {
		if r.Limit <= 0 || r.Limit > kept {
			r.Limit = kept
		}
		if out, err := s.owned.Newest(ctx, n, r.Limit); err == nil && out.Status.Service != "" {
			return api.ServiceOutput{Service: asService(out.Status), Data: out.Data, Omitted: out.Omitted}, nil
		}
	}
	return s.services.Output(r)
}

// StopService implements [api.Services].
func (s *Session) StopService(ctx context.Context, r api.ServiceName) (api.ServiceStatus, error) {
	if n, is := s.asCommand(r.Name); is {
		if out, err := s.owned.Newest(ctx, n, 0); err == nil && out.Status.Service != "" {
			st, err := s.StopCommand(ctx, api.CommandNumber{Number: n})
			return asService(st), err
		}
	}
	return s.services.Stop(ctx, r.Name)
}

// Processes implements [api.Services].
func (s *Session) Processes(context.Context) ([]api.Running, error) {
	list := []api.Running{}
	switch g := s.slot.Guest().(type) {
	case nil:
		return nil, messages.ErrNoMachine
	case hypervisor.Housed:
		for _, p := range gate.NewProcessReader().Below(g.First(), time.Now()) {
			list = append(list, api.Running{
				PID: p.Inside, Parent: p.Parent, HostPID: p.PID, Name: p.Name, CommandLine: p.CommandLine, State: p.State, CPU: p.CPU, StartedAt: p.Started,
			})
		}
		return list, nil
	}
	why, _ := hypervisor.Lacks(s.cfg.Runtime.Name(), "processes")
	return nil, fmt.Errorf("%s: %w", why, errors.ErrUnsupported)
}

// CPUTime implements [api.Spender].
func (s *Session) CPUTime(context.Context) (time.Duration, error) {
	g := s.slot.Guest()
	if g == nil {
		return 0, messages.ErrNoMachine
	}
	if g, ok := g.(hypervisor.Spender); ok {
		if spent, ok := g.CPUTime(); ok {
			return spent, nil
		}
	}
	return 0, fmt.Errorf("how much of the processors it takes is not known with isolation %s: %w", s.cfg.Runtime.Name(), errors.ErrUnsupported)
}

// Kill implements [api.Services].
func (s *Session) Kill(ctx context.Context) (int, error) {
	return s.steps.Cancel(ctx, messages.ErrKilled)
}
