package policy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Target is what a flow wants to reach.
type Target struct {
	Protocol Protocol
	// Address is the peer as the host would reach it; the port is 0 for ICMP.
	Address netip.AddrPort
}

// Action is what is to be done with a flow.
type Action string

// The actions. Undecided is returned by [Engine.Peek] only: ask.
const (
	Allow     Action = "allow"
	Deny      Action = "deny"
	Undecided Action = "undecided"
)

// Verdict is a decision and where it comes from.
type Verdict struct {
	Action Action
	// Rule is the rule that allowed it, or in a few words why it was decided so.
	Rule string
	// Domain is the name by which the address was found, if we know one.
	Domain string
	// ByName is set if only a domain opened this flow: a name that the flow
	// itself says is to be shown to [Engine.ServerName].
	ByName bool
}

// Allowed tells whether the flow may go on.
func (v Verdict) Allowed() bool { return v.Action == Allow }

// Question is what a person is asked.
type Question struct {
	// Lookup is set when a name is to be resolved, which is asked before the
	// connection; Target is empty then.
	Lookup bool
	Target Target
	// Domain is the name that is looked up, or by which the address was found.
	Domain string
	// Source is the guest's end of the first flow that waits, for people.
	Source netip.AddrPort
	// PID is the process that asks, as the host numbers it; 0: Source says who it is.
	PID int
}

// Answer is a person's decision.
type Answer struct {
	Allow bool
	// Once keeps the answer from being remembered: the next flow asks again. An
	// allowed lookup opens its addresses while they are remembered in any case.
	Once bool
}

// AskFunc has a person decide. It returns when there is an answer or ctx ends;
// an error means no. It is called on its own goroutine, for several questions at
// once.
type AskFunc func(ctx context.Context, q Question) (Answer, error)

// Options of [New]. Only the network's mode is required; Ask in mode ask.
type Options struct {
	Network
	// Resolvers are the DNS servers that a guest in our own network namespace asks: port 53 of them is allowed, unless a rule denies it.
	Resolvers []netip.Addr

	Ask AskFunc
	// AskTimeout is how long a question may stay open; 0 means 2 minutes.
	AskTimeout time.Duration
	// MaxPending bounds the open questions; 0 means 64. Beyond it: denied.
	MaxPending int

	// MinRemember is the least time for which an answer of the DNS opens its
	// addresses, as programs keep them for longer than they may; 0 means 5
	// minutes.
	MinRemember time.Duration
	// MaxRemembered bounds the remembered addresses, answers and decisions; 0
	// means 8192 of each. The one that ends soonest makes room.
	MaxRemembered int

	// OnEvent hears of every flow. It is called from many goroutines and must
	// not block.
	OnEvent func(Event)
	Log     *slog.Logger

	// Now and HostAddrs are for tests; nil means the system's.
	Now       func() time.Time
	HostAddrs func() ([]netip.Addr, error)
}

// Engine decides. Its methods are safe for concurrent use.
type Engine struct {
	o           Options
	allow, deny []Rule

	decides Mode // Open, Allowlist, Ask or Disabled
	log     *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	asking sync.WaitGroup

	flows registry

	mu      sync.Mutex
	closed  bool
	own     map[netip.Addr]bool
	ownAt   time.Time
	learnt  memory[netip.Addr, learntNames]
	decided memory[string, Verdict]
	pending map[string]*question
}

// learntNames are the names by which one address was found.
type learntNames map[string]learntName

type learntName struct {
	until   time.Time
	granted string // the rule, if a person allowed the lookup
}

// maxNames bounds the names that are remembered for one address.
const maxNames = 64

// New checks the options and returns an engine; end it with Close.
func New(o Options) (*Engine, error) {
	if _, err := ParseMode(string(o.Mode)); err != nil {
		return nil, err
	}
	allow, deny, err := o.rules()
	if err != nil {
		return nil, err
	}
	decides := o.Mode.decides(allow)
	if decides == Ask && o.Ask == nil {
		return nil, errors.New("policy: mode ask, and nobody to ask")
	}
	setDefault(&o.AskTimeout, 2*time.Minute)
	setDefault(&o.MaxPending, 64)
	setDefault(&o.MinRemember, 5*time.Minute)
	setDefault(&o.MaxRemembered, 8192)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HostAddrs == nil {
		o.HostAddrs = hostAddrs
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{o: o, allow: allow, deny: deny, decides: decides, log: o.Log, pending: map[string]*question{}}
	e.learnt.max, e.decided.max = o.MaxRemembered, o.MaxRemembered
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Mode returns the engine's mode.
func (e *Engine) Mode() Mode { return e.o.Mode }

// NamesIPv6Loopback tells whether a rule names the host's ::1 as such. Only then a guest is to know
// an IPv6 address of it: most servers of a host listen at 127.0.0.1.
func (e *Engine) NamesIPv6Loopback() bool {
	a := netip.IPv6Loopback()
	return slices.ContainsFunc(e.allow, func(r Rule) bool { return !r.host && r.opens(a, netip.PrefixFrom(a, a.BitLen())) })
}

// Close ends open questions with no, refuses everything from now on, and returns
// when nobody is being asked any more.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.asking.Wait()
}

// Peek decides what can be decided without a person, and at once.
func (e *Engine) Peek(t Target) Verdict {
	t.Address = netip.AddrPortFrom(t.Address.Addr().Unmap(), t.Address.Port())
	now := e.o.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.decide(t, now)
	if v.Domain == "" {
		v.Domain = e.nameOf(t.Address.Addr(), now)
	}
	return v
}

// Connect decides about a flow, and in mode ask returns only when somebody has
// decided, or the question's time is over, or ctx is: denied.
func (e *Engine) Connect(ctx context.Context, t Target, source netip.AddrPort) Verdict {
	v := e.Peek(t)
	if v.Action != Undecided {
		return v
	}
	return e.ask(ctx, Question{Target: t, Domain: v.Domain, Source: source})
}

// Lookup decides whether a name may be resolved; it may wait as Connect does. An
// allowed lookup's answer goes to [Engine.Learn].
func (e *Engine) Lookup(ctx context.Context, name string, source netip.AddrPort) Verdict {
	name, err := CanonicalName(name)
	if err != nil {
		return Verdict{Action: Deny, Rule: "not a host's name"}
	}
	v := e.lookup(name)
	if v.Action != Undecided {
		return v
	}
	return e.ask(ctx, Question{Lookup: true, Domain: name, Source: source})
}

func (e *Engine) lookup(name string) Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := Verdict{Action: Allow, Domain: name}
	why, denied := e.deniedName(name)
	switch {
	case e.closed:
		v.Action, v.Rule = Deny, "closed"
		return v
	case e.decides == Disabled:
		v.Action, v.Rule = Deny, string(Disabled)
		return v
	case denied:
		v.Action, v.Rule = Deny, why
		return v
	case e.decides == Open:
		v.Rule = string(Open)
		return v
	}
	for _, r := range e.allow {
		if r.any || r.names(name) {
			v.Rule = r.text
			return v
		}
	}
	if old, ok := e.decided.get(Question{Lookup: true, Domain: name}.Subject(), e.o.Now()); ok {
		return old
	}
	v.Action, v.Rule = Deny, notListed
	if e.decides == Ask {
		v.Action, v.Rule = Undecided, ""
	}
	return v
}

// Learn remembers what a lookup that v allowed found, for ttl or MinRemember,
// whichever is longer, and returns the addresses that the guest may be told:
// never protected ones, so that a name cannot be pointed at the host.
func (e *Engine) Learn(v Verdict, addrs []netip.Addr, ttl time.Duration) []netip.Addr {
	if !v.Allowed() || v.Domain == "" {
		return nil
	}
	now := e.o.Now()
	until := now.Add(max(ttl, e.o.MinRemember))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refreshOwn(now)
	var tell []netip.Addr
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		if _, why, ok := e.guarded(a); ok {
			e.log.Warn("an answer points at a protected address: withheld", "domain", v.Domain, "address", a.String(), "is", why)
			continue
		}
		tell = append(tell, a)
		names, ok := e.learnt.get(a, now)
		if !ok {
			names = learntNames{}
		}
		for name, l := range names {
			if !l.until.After(now) {
				delete(names, name)
			}
		}
		if _, known := names[v.Domain]; !known && len(names) >= maxNames {
			continue
		}
		l := learntName{until: until}
		if v.Rule == byPerson {
			l.granted = v.Rule
		}
		names[v.Domain] = l
		last := until
		for _, l := range names {
			if l.until.After(last) {
				last = l.until
			}
		}
		e.learnt.put(a, names, last, now)
	}
	return tell
}

// decide is the order of the checks. Called with the engine locked.
func (e *Engine) decide(t Target, now time.Time) Verdict {
	a := t.Address.Addr()
	if e.closed || e.decides == Disabled || !a.IsValid() {
		return Verdict{Action: Deny, Rule: string(Disabled)}
	}
	if why, ok := e.deniedFlow(a, t, now); ok {
		return Verdict{Action: Deny, Rule: why}
	}
	if e.resolves(t, a) {
		return Verdict{Action: Allow, Rule: byResolver}
	}
	e.refreshOwn(now)
	if within, why, ok := e.guarded(a); ok {
		for _, r := range e.allow {
			if r.opens(a, within) && r.covers(t.Protocol, t.Address.Port()) {
				return Verdict{Action: Allow, Rule: r.text}
			}
		}
		return Verdict{Action: Deny, Rule: e.protects() + why}
	}
	if e.decides == Open {
		return Verdict{Action: Allow, Rule: string(Open)}
	}
	for _, r := range e.allow {
		if (r.any || r.holds(a)) && r.covers(t.Protocol, t.Address.Port()) {
			return Verdict{Action: Allow, Rule: r.text}
		}
	}
	if v, ok := e.byName(a, t, now); ok {
		return v
	}
	if v, ok := e.decided.get(Question{Target: t}.Subject(), now); ok {
		return v
	}
	if e.decides == Ask {
		return Verdict{Action: Undecided}
	}
	return Verdict{Action: Deny, Rule: notListed}
}

// deniedName returns the rule that denies a name altogether: one of some ports denies
// flows only.
func (e *Engine) deniedName(name string) (why string, ok bool) {
	for _, r := range e.deny {
		if (r.any || r.names(name)) && r.low == 0 && r.protocol == "" {
			return byDenial + r.text, true
		}
	}
	return "", false
}

// deniedFlow returns the rule that denies a flow: by its address, or by a name by which
// the address was found, whatever other names have it. Called with the engine locked.
func (e *Engine) deniedFlow(a netip.Addr, t Target, now time.Time) (why string, ok bool) {
	if len(e.deny) == 0 {
		return "", false
	}
	names, _ := e.learnt.get(a, now)
	for _, r := range e.deny {
		if !r.covers(t.Protocol, t.Address.Port()) {
			continue
		}
		if r.any || r.holds(a) || slices.ContainsFunc(carried(a), r.holds) {
			return byDenial + r.text, true
		}
		for name, l := range names {
			if l.until.After(now) && r.names(name) {
				return byDenial + r.text, true
			}
		}
	}
	return "", false
}

// byName looks for a name by which the address was found and which opens it.
func (e *Engine) byName(a netip.Addr, t Target, now time.Time) (Verdict, bool) {
	names, _ := e.learnt.get(a, now)
	for name, l := range names {
		if !l.until.After(now) {
			continue
		}
		if rule := e.nameRule(name, t, l.granted); rule != "" {
			return Verdict{Action: Allow, Rule: rule, Domain: name, ByName: true}, true
		}
	}
	return Verdict{}, false
}

// nameRule returns the rule by which a name opens a flow, or "".
func (e *Engine) nameRule(name string, t Target, granted string) string {
	// QUIC's greeting is encrypted, so that its server's name cannot be looked at:
	// only a rule that says udp opens it.
	quic := t.Protocol == UDP && t.Address.Port() == 443
	for _, r := range e.allow {
		if r.names(name) && r.covers(t.Protocol, t.Address.Port()) && (!quic || r.protocol == UDP) {
			return r.text
		}
	}
	if quic {
		return ""
	}
	return granted
}

// nameOf returns a name by which the address was found, for people.
func (e *Engine) nameOf(a netip.Addr, now time.Time) string {
	names, _ := e.learnt.get(a, now)
	var best string
	for name, l := range names {
		if l.until.After(now) && (best == "" || name < best) {
			best = name
		}
	}
	return best
}

// Names lists the names by which an address was found, in no order.
func (e *Engine) Names(a netip.Addr) []string {
	now := e.o.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	learnt, _ := e.learnt.get(a.Unmap(), now)
	var names []string
	for name, l := range learnt {
		if l.until.After(now) {
			names = append(names, name)
		}
	}
	return names
}

// ServerName decides once more about a flow that v opened by a name only, when
// the flow says which name it wants (TLS's server name). It must be one that
// opens this kind of flow too, else whatever shares an address with an allowed
// name would be allowed. An empty name changes nothing: an address says as much.
// One that no host can have is denied: a server may find it below a name of its own.
func (e *Engine) ServerName(v Verdict, t Target, name string) Verdict {
	if !v.ByName || name == "" {
		return v
	}
	name, err := CanonicalName(name)
	switch {
	case err != nil:
		v.Action, v.Rule = Deny, "server name that is no host's"
		return v
	case name == v.Domain:
		return v
	}
	for _, r := range e.deny {
		if r.names(name) && r.covers(t.Protocol, t.Address.Port()) {
			v.Action, v.Rule, v.Domain = Deny, byDenial+r.text, name
			return v
		}
	}
	now := e.o.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	granted := ""
	if d, ok := e.decided.get(Question{Lookup: true, Domain: name}.Subject(), now); ok && d.Allowed() {
		granted = d.Rule
	}
	names, _ := e.learnt.get(t.Address.Addr().Unmap(), now)
	if l, ok := names[name]; ok && l.until.After(now) && granted == "" {
		granted = l.granted
	}
	v.Domain = name
	if rule := e.nameRule(name, t, granted); rule != "" {
		v.Rule = rule
		return v
	}
	v.Action, v.Rule = Deny, nameNotListed
	return v
}
