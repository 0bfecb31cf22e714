package actors

import (
	"net/netip"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/mediate"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/network/window"
)

// mostBinds bounds the ports, and the refused addresses, that are remembered. It is not less than what a window has.
const mostBinds = 256

// listening keeps a session's window: where programs inside may listen, and where they are reached. In a network namespace of their own they bind what they like, and this program listens outside
// for them; in this program's own, their sockets are bound elsewhere ([mediate.Listening]). Its methods are safe for concurrent use.
type listening struct {
	window  *window.Window
	shared  bool // the guest is in this program's network namespace
	publish func(policy.Port) error
	tell    func(policy.Event)
	warn    func(string)

	mu   sync.Mutex
	done map[uint16]error // by the port inside: what came of making it reachable
	told map[netip.AddrPort]bool
}

var _ mediate.Listening = (*listening)(nil)

// listens allots the session's window.
func (s *Session) listens() error {
	if s.cfg.Runtime == nil {
		return nil
	}
	w, err := window.Allot(s.cfg.Network.Settings)
	if err != nil || w == nil {
		return err
	}
	l := &listening{window: w, shared: s.cfg.Network.Mode.InPod(), tell: s.networkEvent}
	l.publish = func(p policy.Port) error { return s.published.add(p) }
	l.warn = func(text string) { s.bus.Emit(api.Event{Type: api.EventWarning, Message: text}) }
	s.net.listening.Store(l)
	s.mediation.Listen(l)
	return nil
}

// Binds implements [mediate.Listening].
func (l *listening) Binds(f mediate.Flow) (at netip.AddrPort, ok bool) {
	if why := l.window.Refuses(f.To); why != "" {
		l.refuse(f, why)
		return at, false
	}
	if !l.shared || f.Protocol != "tcp" || l.window.Strategy() == window.Fail {
		return f.To, true
	}
	local := f.To.Addr().IsLoopback() || f.To.Addr().IsUnspecified()
	if device, ok := l.window.Device(); ok && !local || f.To.Addr() == device {
		return f.To, true // whoever names another address, or this one, means it
	}
	reached, err := l.window.Reach(f.To.Port())
	if err != nil {
		l.refuse(f, err.Error())
		return at, false
	}
	if _, ok := l.window.Device(); ok {
		return reached, true
	}
	return netip.AddrPortFrom(f.To.Addr(), reached.Port()), true
}

// Bound implements [mediate.Listening].
func (l *listening) Bound(f mediate.Flow) {
	if a := f.To.Addr(); f.Protocol != "tcp" || !a.IsLoopback() && !a.IsUnspecified() || l.shared && l.window.Strategy() == window.Fail {
		return
	}
	if _, first, err := l.expose(f.To.Port()); first && err != nil {
		l.warn(err.Error())
	}
}

// Connects implements [mediate.Listening].
func (l *listening) Connects(to netip.AddrPort) netip.AddrPort {
	at, ok := l.window.Reached(to.Port())
	device, rewired := l.window.Device()
	switch {
	case !ok || l.window.Strategy() == window.Fail:
		return to
	case rewired && to.Addr().IsLoopback():
		return netip.AddrPortFrom(device, to.Port())
	case rewired:
		return to
	}
	return netip.AddrPortFrom(to.Addr(), at.Port())
}

// expose has a port inside reached by the window, once, and tells where. First: nobody has asked for that port before.
func (l *listening) expose(port uint16) (at netip.AddrPort, first bool, err error) {
	at, err = l.window.Reach(port)
	l.mu.Lock()
	before, known := l.done[port]
	if known {
		l.mu.Unlock()
		return at, false, before
	}
	if err == nil && !l.shared {
		err = l.publish(policy.Port{Listen: at, Guest: port})
	}
	if l.done == nil {
		l.done = make(map[uint16]error)
	}
	if first = len(l.done) < mostBinds; first {
		l.done[port] = err
	}
	l.mu.Unlock()
	if err == nil {
		inside := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		l.tell(policy.Event{Kind: policy.EventListen, Protocol: policy.TCP, Target: inside, Source: at, Action: policy.Allow, Rule: "reached at " + at.String()})
	}
	return at, first, err
}

// refuse tells that a program may not listen there.
func (l *listening) refuse(f mediate.Flow, why string) {
	l.mu.Lock()
	known := l.told[f.To]
	if l.told == nil {
		l.told = make(map[netip.AddrPort]bool)
	}
	if len(l.told) < mostBinds {
		l.told[f.To] = true
	}
	l.mu.Unlock()
	if !known {
		l.tell(policy.Event{Kind: policy.EventListen, Protocol: policy.Protocol(f.Protocol), Target: f.To, Action: policy.Deny, Rule: why})
	}
}

// variables are those by which programs inside know the window.
func (l *listening) variables() []string {
	if l == nil {
		return nil
	}
	return l.window.Variables()
}

// facts describe the window for people.
func (l *listening) facts(f map[string]string) {
	if l == nil {
		return
	}
	f["window"] = string(l.window.Strategy()) + ": " + l.window.String()
	if ports := l.window.Ports(); len(ports) > 0 {
		f["reached"] = strings.Join(ports, ", ")
	}
}

// close gives the window back.
func (l *listening) close() {
	if l != nil {
		_ = l.window.Close()
	}
}
