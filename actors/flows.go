package actors

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
)

// What is told of the network at most.
const (
	mostFlows    = 200
	mostRefusals = 200
	mostSought   = 32 // flows whose programs are looked for at once
	mostTold     = 100
)

// refusedFlows are the newest different things that were refused, the newest last. Methods are safe for concurrent use and
// do not block.
type refusedFlows struct {
	mu   sync.Mutex
	list []refusedFlow
}

type refusedFlow struct {
	subject refusedSubject
	remedy  string
	told    api.NetworkRefusal
}

// refusedSubject is what makes two refusals the same.
type refusedSubject struct {
	protocol policy.Protocol
	target   netip.AddrPort
	domain   string
	rule     string
}

// note notes that something was refused.
func (r *refusedFlows) note(e policy.Event, step undolog.StepID) {
	subject := refusedSubject{e.Protocol, e.Target, e.Domain, e.Rule}
	r.mu.Lock()
	defer r.mu.Unlock()
	var one refusedFlow
	if i := slices.IndexFunc(r.list, func(o refusedFlow) bool { return o.subject == subject }); i >= 0 {
		one = r.list[i]
		r.list = slices.Delete(r.list, i, i+1)
	} else {
		one = refusedFlow{subject: subject, remedy: e.Remedy(), told: api.NetworkRefusal{First: e.Time}}
	}
	one.told.Times++
	one.told.Last, one.told.Step = e.Time, step
	if r.list = append(r.list, one); len(r.list) > mostRefusals {
		r.list = slices.Delete(r.list, 0, len(r.list)-mostRefusals)
	}
}

// newest lists them, the newest first.
func (r *refusedFlows) newest() []api.NetworkRefusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]api.NetworkRefusal, 0, len(r.list))
	for _, o := range slices.Backward(r.list) {
		t := o.told
		t.Protocol, t.Host, t.Rule, t.AllowHost = string(o.subject.protocol), o.subject.domain, o.subject.rule, o.remedy
		if o.subject.target.IsValid() {
			t.Address, t.Port = o.subject.target.Addr().Unmap().String(), o.subject.target.Port()
		}
		list = append(list, t)
	}
	return list
}

// owners remembers the programs of live flows for who looks again. Methods are safe for concurrent use.
type owners struct {
	mu    sync.Mutex
	known map[uint64]*api.Process // by the flow's number; nil: it was not found
}

// of returns the programs of flows, by their numbers. find is called for at most mostSought that were not asked for before,
// in the order of the flows. What is not listed any more is forgotten.
func (o *owners) of(flows []policy.Event, find func(policy.Event) *api.Process) map[uint64]*api.Process {
	o.mu.Lock()
	before := o.known
	o.mu.Unlock()
	now := make(map[uint64]*api.Process, len(flows))
	left := mostSought
	for _, f := range flows {
		p, ok := before[f.Flow]
		if !ok && left > 0 {
			left--
			p, ok = find(f), true
		}
		if ok {
			now[f.Flow] = p
		}
	}
	o.mu.Lock()
	o.known = now // never changed after this
	o.mu.Unlock()
	return now
}

// Network implements [api.Networked].
func (s *Session) Network(context.Context) (api.NetworkStatus, error) {
	n := s.cfg.Network
	st := api.NetworkStatus{
		At: s.clock.Now(), Mode: string(policy.Disabled), Allow: api.OrEmpty(n.Allow), Deny: api.OrEmpty(n.Deny),
		Flows: []api.NetworkFlow{}, Refused: s.net.refused.newest(),
		Denied: s.net.denied.Load(), Allowed: s.net.allowed.Load(), Lookups: s.net.lookups.Load(),
	}
	st.Waiting, st.Answers = s.answers.about(messages.KindNetwork, mostTold)
	select {
	case <-s.stopped:
		return st, messages.ErrStopped
	default:
	}
	if s.cfg.Runtime != nil {
		if _, lacks := hypervisor.Lacks(s.cfg.Runtime.Name(), "no network"); lacks {
			st.Mode = "host"
		}
	}
	if s.net.engine == nil {
		return st, nil
	}
	st.Mode = string(s.net.engine.Mode())
	flows := s.net.engine.Flows()
	st.Live = len(flows)
	slices.Reverse(flows)
	flows = flows[:min(len(flows), mostFlows)]
	programs := s.net.owners.of(flows, s.flowOwner)
	for _, f := range flows {
		st.Flows = append(st.Flows, api.NetworkFlow{
			ID: f.Flow, Protocol: string(f.Protocol), Host: f.Domain, Address: f.Target.Addr().Unmap().String(), Port: f.Target.Port(),
			Process: programs[f.Flow], Rule: f.Rule, Since: f.Time, Sent: f.Sent, Received: f.Received,
		})
	}
	return st, nil
}

// flowOwner is the process inside that has the flow's socket, or nil.
func (s *Session) flowOwner(f policy.Event) *api.Process {
	owner, ok := s.slot.Guest().(hypervisor.Owner)
	if !ok || !f.Source.IsValid() || f.Protocol != policy.TCP && f.Protocol != policy.UDP {
		return nil
	}
	pid, ok := owner.SocketOwner(string(f.Protocol), f.Source)
	if !ok {
		return nil
	}
	all := gate.NewProcessReader().Of(pid)
	if len(all) == 0 {
		return nil
	}
	p := api.Process(all[0])
	return &p
}

// about returns the questions of a kind that wait, oldest first, and the newest answers to others.
func (a *answers) about(kind string, most int) (waiting []api.Pending, past []api.Decided) {
	waiting, past = []api.Pending{}, []api.Decided{}
	a.mu.Lock()
	for _, p := range a.open {
		if p.Kind == kind {
			waiting = append(waiting, p)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(waiting, func(x, y api.Pending) int { return x.Since.Compare(y.Since) })
	for _, d := range a.list() {
		if d.Kind == kind && len(past) < most {
			past = append(past, d)
		}
	}
	return waiting[:min(len(waiting), most)], past
}
