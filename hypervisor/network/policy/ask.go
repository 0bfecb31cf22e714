package policy

import (
	"context"
	"net/netip"
	"time"
)

// byPerson is the Rule of what a person allowed.
const byPerson = "allowed by a person"

// question is one that is being asked; done is closed when verdict is there.
type question struct {
	done    chan struct{}
	verdict Verdict
}

// Subject is equal for questions that are answered together: "lookup NAME", or the
// protocol and the address with its port.
func (q Question) Subject() string {
	if q.Lookup {
		return "lookup " + q.Domain
	}
	a := netip.AddrPortFrom(q.Target.Address.Addr().Unmap(), q.Target.Address.Port())
	return string(q.Target.Protocol) + " " + a.String()
}

// ask joins the open question that is equal, or opens one, and waits.
func (e *Engine) ask(ctx context.Context, q Question) Verdict {
	no := Verdict{Action: Deny, Domain: q.Domain}
	e.mu.Lock()
	if v, ok := e.decided.get(q.Subject(), e.o.Now()); ok { // decided since
		e.mu.Unlock()
		return v
	}
	p := e.pending[q.Subject()]
	switch {
	case p != nil:
	case e.closed:
		e.mu.Unlock()
		no.Rule = "closed"
		return no
	case len(e.pending) >= e.o.MaxPending:
		e.mu.Unlock()
		no.Rule = "too many open questions"
		return no
	default:
		p = &question{done: make(chan struct{})}
		e.pending[q.Subject()] = p
		e.asking.Go(func() { e.put(q, p) })
	}
	e.mu.Unlock()
	select {
	case <-p.done:
		return p.verdict
	case <-ctx.Done():
		no.Rule = "gone before it was decided"
		return no
	}
}

// put puts the question to the person and closes it.
func (e *Engine) put(q Question, p *question) {
	ctx, cancel := context.WithTimeout(e.ctx, e.o.AskTimeout)
	defer cancel()
	e.emit(Event{Kind: EventAsk, Protocol: q.protocol(), Source: q.Source, Target: q.Target.Address, Domain: q.Domain, Action: Undecided})
	answer, err := e.o.Ask(ctx, q)

	v := Verdict{Action: Deny, Rule: byPersonDenied, Domain: q.Domain}
	switch {
	case ctx.Err() != nil: // an answer that came too late counts for no
		v.Rule = nobodyDecided + " in time"
	case err != nil:
		v.Rule = nobodyDecided + ": " + err.Error()
	case answer.Allow:
		v.Action, v.Rule, v.ByName = Allow, byPerson, false
	}
	e.mu.Lock()
	delete(e.pending, q.Subject())
	if err == nil && ctx.Err() == nil && !answer.Once {
		now := e.o.Now()
		e.decided.put(q.Subject(), v, now.Add(forever), now)
	}
	e.mu.Unlock()
	p.verdict = v
	close(p.done)
}

// forever is longer than an engine lives.
const forever = 100 * 365 * 24 * time.Hour

func (q Question) protocol() Protocol {
	if q.Lookup {
		return DNS
	}
	return q.Target.Protocol
}
