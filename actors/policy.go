package actors

import (
	"context"
	"net/netip"
	"strconv"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/audit"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
)

// byPolicy answers a question about the network by the rules of the policy, and asks a
// person if none decides. What a rule decides is in the audit log, and is decided anew
// each time: the rules may change while the session runs.
func (s *Session) byPolicy() func(context.Context, policy.Question) (policy.Answer, error) {
	state, err := StateDir()
	if err != nil {
		state = "" // no home directory: a project has no rules
	}
	book := approval.NewBook(approval.Standard(state, s.cfg.Directories[0].Path), s.clock.Now)
	return func(ctx context.Context, q policy.Question) (policy.Answer, error) {
		d := book.Decide(approval.Query{Operation: approval.Connect, Host: destination(q)})
		if d.Action != approval.Allow && d.Action != approval.Deny {
			return s.askNetwork(ctx, q)
		}
		s.to("audit")(&audit.Record{Decision: messages.Decision{
			At: s.clock.Now(), Kind: messages.KindNetwork, Directory: s.dirs[0].Config.Path, Step: int64(s.board.Load().Step),
			Message: networkQuestion(q), Decision: string(d.Action), By: messages.ByRule, Rule: d.Why,
		}})
		return policy.Answer{Allow: d.Action == approval.Allow, Once: true}, nil
	}
}

// destination is what a rule about just this would name: a name with all its ports, since
// a lookup opens the name's addresses, or an address with its protocol and port.
func destination(q policy.Question) string {
	switch {
	case q.Lookup:
		return q.Domain
	case q.Target.Protocol == policy.ICMP:
		return "icmp/" + q.Target.Address.Addr().Unmap().String()
	case q.Domain != "":
		return string(q.Target.Protocol) + "/" + q.Domain + ":" + strconv.Itoa(int(q.Target.Address.Port()))
	}
	a := netip.AddrPortFrom(q.Target.Address.Addr().Unmap(), q.Target.Address.Port())
	return string(q.Target.Protocol) + "/" + a.String()
}
