package policy

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// EventKind says what an [Event] tells.
type EventKind string

// The kinds. A flow that is allowed has a start and exactly one end; one that is
// denied has a deny alone. A lookup has one event; a question has one when it is
// put.
const (
	EventStart  EventKind = "start"
	EventEnd    EventKind = "end"
	EventDeny   EventKind = "deny"
	EventLookup EventKind = "lookup"
	EventAsk    EventKind = "ask"
	// EventListen: a program inside listens at Target, or may not. If it is reached elsewhere, Source says where.
	EventListen EventKind = "listen"
)

// Event is one line of the audit. Names and addresses in it are the guest's.
type Event struct {
	Kind EventKind
	Time time.Time
	// Flow numbers the flows of an engine from 1; 0 where there is none.
	Flow     uint64
	Protocol Protocol
	Source   netip.AddrPort
	Target   netip.AddrPort
	Domain   string
	Action   Action
	Rule     string

	// Of an end: bytes of payload from the guest and to it, for how long, and
	// what went wrong ("" if nothing did).
	Sent, Received uint64
	Duration       time.Duration
	Error          string
}

// Remedy returns a rule that would have allowed what the event says was denied, or ""
// if none would.
func (e Event) Remedy() string {
	why, protected := strings.CutPrefix(e.Rule, byProtection)
	switch {
	case e.Action != Deny, protected && why == noHost:
		return ""
	case !protected && e.Rule != notListed && e.Rule != nameNotListed && e.Rule != byPersonDenied && !strings.HasPrefix(e.Rule, nobodyDecided):
		return ""
	case e.Protocol == DNS, e.Protocol == ICMP && e.Domain != "" && !protected:
		return e.Domain
	case e.Protocol == ICMP:
		return e.Target.Addr().String()
	case e.Domain != "" && !protected:
		return e.Domain + ":" + strconv.Itoa(int(e.Target.Port()))
	}
	return e.Target.String() // with brackets, if it needs them
}

// Asked tells whether a question decided it, and not a rule: a person, or because nobody
// answered.
func (e Event) Asked() bool {
	return e.Rule == byPerson || e.Rule == byPersonDenied || strings.HasPrefix(e.Rule, nobodyDecided)
}

// Reached is where the host reaches what listens inside; empty: that is not what the event is about.
func (e Event) Reached() string {
	if e.Kind != EventListen || e.Action != Allow || !e.Source.IsValid() {
		return ""
	}
	return e.Source.String()
}

// Destination says for people what the event is about.
func (e Event) Destination() string {
	switch {
	case e.Kind == EventListen:
		return "listen at " + string(e.Protocol) + " " + e.Target.String()
	case e.Protocol == DNS || !e.Target.IsValid():
		return "look up " + e.Domain
	case e.Domain != "":
		return string(e.Protocol) + " " + e.Target.String() + " (" + e.Domain + ")"
	}
	return string(e.Protocol) + " " + e.Target.String()
}

// Why something was denied.
const (
	notListed      = "not in the allow list"
	nameNotListed  = "server name not in the allow list"
	byPersonDenied = "denied by a person"
	nobodyDecided  = "nobody decided"
	byProtection   = "protected: "
	byDenial       = "denied by the rule "
	noHost         = "no host"
)

// Flow is one that was allowed and is live. Its methods are safe for concurrent
// use.
type Flow struct {
	engine *Engine
	event  Event // as at its start

	sent, received atomic.Uint64
	ended          atomic.Bool
}

// Sent counts n bytes of payload from the guest, Received n bytes to it.
func (f *Flow) Sent(n int) { f.sent.Add(uint64(n)) }

// Received counts n bytes of payload to the guest.
func (f *Flow) Received(n int) { f.received.Add(uint64(n)) }

// Overrule records that the flow was denied after its start: its end says so.
func (f *Flow) Overrule(v Verdict) { f.engine.denied(f.event, v) }

// End ends the flow; err is nil if both ends closed it in order. Only the first
// call counts.
func (f *Flow) End(err error) {
	if !f.ended.CompareAndSwap(false, true) {
		return
	}
	ev := f.Snapshot()
	ev.Kind = EventEnd
	if err != nil {
		ev.Error = err.Error()
	}
	f.engine.flows.remove(f)
	f.engine.emit(ev)
}

// Snapshot returns the flow's start with the bytes until now.
func (f *Flow) Snapshot() Event {
	ev := f.event
	ev.Sent, ev.Received = f.sent.Load(), f.received.Load()
	ev.Duration = f.engine.o.Now().Sub(ev.Time)
	return ev
}

// Start records a flow that was allowed.
func (e *Engine) Start(t Target, source netip.AddrPort, v Verdict) *Flow {
	f := &Flow{engine: e, event: Event{
		Kind: EventStart, Time: e.o.Now(), Flow: e.flows.last.Add(1), Protocol: t.Protocol, Source: source, Target: t.Address,
		Domain: v.Domain, Action: v.Action, Rule: v.Rule,
	}}
	e.flows.add(f)
	e.emit(f.event)
	return f
}

// Denied records a flow that was not.
func (e *Engine) Denied(t Target, source netip.AddrPort, v Verdict) {
	e.denied(Event{Protocol: t.Protocol, Source: source, Target: t.Address}, v)
}

func (e *Engine) denied(ev Event, v Verdict) {
	ev.Kind, ev.Time, ev.Action, ev.Rule, ev.Domain = EventDeny, e.o.Now(), Deny, v.Rule, v.Domain
	e.emit(ev)
}

// LookedUp records a lookup: what was decided and, if it failed, why.
func (e *Engine) LookedUp(source netip.AddrPort, v Verdict, err error) {
	ev := Event{Kind: EventLookup, Time: e.o.Now(), Protocol: DNS, Source: source, Domain: v.Domain, Action: v.Action, Rule: v.Rule}
	if err != nil {
		ev.Error = err.Error()
	}
	e.emit(ev)
}

// Flows lists the live flows by number.
func (e *Engine) Flows() []Event {
	e.flows.mu.Lock()
	list := make([]Event, 0, len(e.flows.live))
	for f := range e.flows.live {
		list = append(list, f.Snapshot())
	}
	e.flows.mu.Unlock()
	slices.SortFunc(list, func(a, b Event) int { return cmp.Compare(a.Flow, b.Flow) })
	return list
}

// emit delivers an event and logs it: denials at info, the rest at debug.
func (e *Engine) emit(ev Event) {
	if ev.Time.IsZero() {
		ev.Time = e.o.Now()
	}
	e.o.OnEvent(ev)
	level := slog.LevelDebug
	if ev.Action == Deny {
		level = slog.LevelInfo
	}
	if !e.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("op", string(ev.Kind)), slog.String("protocol", string(ev.Protocol)), slog.String("action", string(ev.Action))}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	if ev.Target.IsValid() {
		add("target", ev.Target.String())
	}
	add("domain", ev.Domain)
	add("rule", ev.Rule)
	add("error", ev.Error)
	if ev.Flow != 0 {
		attrs = append(attrs, slog.Uint64("flow", ev.Flow))
	}
	if ev.Kind == EventEnd {
		attrs = append(attrs, slog.Uint64("sent", ev.Sent), slog.Uint64("received", ev.Received), slog.Duration("duration", ev.Duration))
	}
	e.log.LogAttrs(context.Background(), level, "network flow", attrs...)
}

// registry holds the live flows. Its lock is never held with the engine's.
type registry struct {
	last atomic.Uint64
	mu   sync.Mutex
	live map[*Flow]struct{}
}

func (r *registry) add(f *Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == nil {
		r.live = map[*Flow]struct{}{}
	}
	r.live[f] = struct{}{}
}

func (r *registry) remove(f *Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, f)
}
