package actors

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// networkQuestionTime bounds a question in the engine. It is longer than any
// that the safeguard actor gives: the deadline is that actor's.
const networkQuestionTime = 24 * time.Hour

// network is what a session knows of its guest's network.
type network struct {
	engine    *policy.Engine            // nil: there is none
	listening atomic.Pointer[listening] // nil: there is no window

	allowed, denied, lookups atomic.Uint64

	refused refusedFlows
	owners  owners
}

// connectable makes the engine that decides about the guest's network.
func (s *Session) connectable() error {
	n := s.cfg.Network
	if s.cfg.Runtime == nil || n.None() && n.Settings.None() {
		return nil
	}
	s.tree.Node(s.path("network")).SetLive(s.networkLive)
	if n.None() {
		return nil
	}
	var resolvers []netip.Addr
	if n.Mode.InPod() {
		conf, _ := os.ReadFile(resolvConf) // without one, programs ask this machine
		resolvers = policy.Nameservers(string(conf))
	}
	e, err := policy.New(policy.Options{
		Network: n, Resolvers: resolvers, Ask: s.askNetwork, AskTimeout: networkQuestionTime, OnEvent: s.networkEvent,
		Log: s.cfg.Logger.With("component", "network"),
	})
	if err != nil {
		return err
	}
	s.net.engine = e
	if n.Mode.InPod() {
		s.mediation.Decide(&podNetwork{engine: e})
	}
	return nil
}

// networkLive describes the network for people.
func (s *Session) networkLive(n *supervision.Snapshot) {
	n.State, n.Facts = string(policy.Disabled), map[string]string{"denied": fmt.Sprint(s.net.denied.Load())}
	if e := s.net.engine; e != nil {
		n.State = string(e.Mode())
		n.Facts["live"], n.Facts["allowed"], n.Facts["lookups"] = fmt.Sprint(len(e.Flows())), fmt.Sprint(s.net.allowed.Load()), fmt.Sprint(s.net.lookups.Load())
	}
	s.net.listening.Load().facts(n.Facts)
}

// networkEvent passes on what the engine tells of a flow.
func (s *Session) networkEvent(e policy.Event) {
	if e.Time.IsZero() {
		e.Time = s.clock.Now()
	}
	switch {
	case e.Action == policy.Deny:
		s.net.denied.Add(1)
	case e.Kind == policy.EventStart:
		s.net.allowed.Add(1)
	case e.Kind == policy.EventLookup:
		s.net.lookups.Add(1)
	}
	step := s.board.Load().Step
	if e.Action == policy.Deny {
		s.net.refused.note(e, step)
	}
	s.auditNetwork(e, step)
	s.bus.Emit(api.Event{Type: api.EventNetwork, Step: step, Origin: s.origin(step), Network: &e})
}

// auditNetwork records what a rule decided without a question. The audit actor keeps the
// first of each kind.
func (s *Session) auditNetwork(e policy.Event, step undolog.StepID) {
	if e.Asked() || e.Action != policy.Deny && e.Kind != policy.EventStart && e.Kind != policy.EventListen {
		return
	}
	d := messages.Decision{
		At: e.Time, Kind: messages.KindNetwork, Directory: s.dirs[0].Config.Path, Step: int64(step),
		Message: e.Destination(), Decision: "allow", By: messages.ByRule, Rule: e.Rule,
	}
	if e.Action == policy.Deny {
		d.Decision = "deny"
	}
	s.to("audit")(&approval.AuditRecord{Decision: d})
}

// askNetwork has a person decide about a destination, as about a safeguard, unless a rule
// of the policy decides. That nobody decided is an error, so that it is not remembered.
func (s *Session) askNetwork(ctx context.Context, q policy.Question) (policy.Answer, error) {
	if allow, ok := s.remembered(messages.KindNetwork, approval.Query{Operation: approval.Connect, Host: destination(q)}, networkQuestion(q)); ok {
		return policy.Answer{Allow: allow, Once: true}, nil
	}
	a, err := s.decided(ctx, &messages.Ask{
		Kind: messages.KindNetwork, Directory: s.dirs[0].Config.Path, Step: int64(s.board.Load().Step), Count: 1, Message: networkQuestion(q),
		Command: s.openCommand(), Callers: s.connecting(q),
	})
	switch {
	case err != nil:
		return policy.Answer{}, err
	case !a.Allow && messages.Unattended(a.By):
		return policy.Answer{}, messages.Undecided(a.ID, a.By)
	}
	s.remember(messages.KindNetwork, approval.Connect, destination(q), a)
	once := a.Scope == string(approval.Once)
	if q.Lookup || !once { // an allowed lookup opens addresses for a while in any case
		s.answers.keep(a.ID, func() error { s.net.engine.Forget(q); return nil })
	}
	// What ends before the session does is looked up in the policy each time.
	return policy.Answer{Allow: a.Allow, Once: once || a.For > 0}, nil
}

// connecting is the process inside that wants to connect, and its parents, if that can be found out.
func (s *Session) connecting(q policy.Question) []messages.Process {
	owner, ok := s.slot.Guest().(hypervisor.Owner)
	protocol := string(q.Target.Protocol)
	if q.Lookup {
		protocol = string(policy.UDP)
	}
	if q.PID != 0 {
		return processes(gate.NewProcessReader().Of(q.PID))
	}
	if !ok || !q.Source.IsValid() || q.Target.Protocol == policy.ICMP {
		return nil
	}
	pid, ok := owner.SocketOwner(protocol, q.Source)
	if !ok {
		return nil
	}
	return processes(gate.NewProcessReader().Of(pid))
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

// networkQuestion is the question for people. Names in it are canonical: nothing
// of the guest's can act on a terminal.
func networkQuestion(q policy.Question) string {
	if q.Lookup {
		return fmt.Sprintf("connect to %s (its name is looked up, and its addresses opened)", q.Domain)
	}
	where := fmt.Sprintf("%s %s", q.Target.Protocol, q.Target.Address)
	if q.Target.Protocol == policy.ICMP {
		return "ping " + q.Target.Address.Addr().String()
	}
	if q.Domain != "" {
		where += " (" + q.Domain + ")"
	}
	return "connect to " + where
}
