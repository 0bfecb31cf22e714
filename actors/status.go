package actors

import (
	"context"
	"maps"
	"os"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// Status implements [api.Service]. It takes a few locks that nobody holds for long,
// and asks no actor and no disk.
func (s *Session) Status(context.Context) (api.Status, error) {
	now := s.board.Load()
	st := api.Status{Session: s.id, State: "offline", StartedAt: s.started, PID: os.Getpid(), Pending: now.Pending}
	select {
	case <-s.stopped:
		return st, messages.ErrStopped
	default:
	}
	if s.cfg.Runtime != nil {
		st.State, st.Isolation = string(now.State), s.cfg.Runtime.Name()
		st.Machine = s.machineFacts()
		if c, ok := s.slot.Guest().(hypervisor.Speaker); ok {
			st.Console = c.Console()
		}
	}
	for _, w := range s.dirs {
		st.Directories = append(st.Directories, w.Status())
	}
	if id := now.Step; id != 0 {
		st.OpenStep = &id
		if now.Newest.Step == id {
			st.OpenCommand = now.Newest.Command
		}
		st.Running = slices.Clone(now.Running)
	}
	return st, nil
}

// machineFacts describe the running guest and what it takes now; nil if there is none.
func (s *Session) machineFacts() map[string]string {
	g := s.slot.Guest()
	if g == nil {
		return nil
	}
	f := maps.Clone(g.Facts())
	if f == nil {
		f = map[string]string{}
	}
	maps.Copy(f, s.allowanceFacts())
	return f
}
