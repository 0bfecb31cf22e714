package actors

import (
	"context"
	"fmt"
	"net"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/frontend/socket"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/agents"
	"github.com/codeagent/sandbox/messages"
)

// relays serve the agents that programs inside may ask for the use of keys.
func (s *Session) relays() map[string]hypervisor.Agent {
	if len(s.cfg.Agents) == 0 {
		return nil
	}
	for _, pattern := range s.cfg.AllowUse {
		if _, err := s.book.Remember(approval.AllowedUse(pattern)); err != nil {
			s.bus.Emit(api.Event{Type: api.EventWarning, Message: fmt.Sprintf("%s is not allowed: %v", pattern, err)})
		}
	}
	served := make(map[string]hypervisor.Agent)
	for name, a := range s.cfg.Agents {
		o := agents.Options{
			Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", a.Socket)
			},
			Use: s.mayUse, Names: a.Names, Logger: s.cfg.Logger.With("component", "agent", "agent", name),
		}
		relay := agents.New
		if name == "gpg" {
			relay = agents.NewGPG
		}
		served[name] = hypervisor.Agent{Serve: relay(o).Serve, Files: a.Files}
	}
	return served
}

// mayUse has a person decide about the use of a key, as about a safeguard, unless a rule of the policy decides. Where nobody answers, it is refused
// at once, with the rule that would allow it.
func (s *Session) mayUse(ctx context.Context, u agents.Use, client net.Conn) bool {
	if allow, ok := s.remembered(messages.KindUse, approval.Query{Operation: approval.Use, Key: u.Subject()}, u.String()); ok {
		return allow
	}
	if !s.attended() || s.nobody.there(s.clock.Now()) {
		s.unused(u)
		return false
	}
	question := &messages.Ask{
		Kind: messages.KindUse, Directory: s.dirs[0].Config.Path, Step: int64(s.board.Load().Step), Count: 1, Message: u.String(), Command: s.openCommand(),
	}
	if c, ok := client.(*socket.Conn); ok {
		if _, pid, err := socket.Credentials(c); err == nil {
			question.Callers = processes(gate.NewProcessReader().Of(pid))
		}
	}
	a, err := s.decided(ctx, question)
	switch {
	case err != nil:
		return false
	case !a.Allow && messages.Unattended(a.By):
		s.unused(u)
		return false
	}
	s.remember(messages.KindUse, approval.Use, u.Subject(), a)
	return a.Allow
}

// unused says once of a use what would allow it.
func (s *Session) unused(u agents.Use) {
	s.tellRefused(u.Subject(), u.String(), "use", u.Subject())
}
