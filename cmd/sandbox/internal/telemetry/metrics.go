package telemetry

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// instruments are what is measured; docs/observability.md lists them.
type instruments struct {
	steps, stored, affected, safeguards, external, recoveries, problems metric.Int64Counter
	stepTime, holdTime, undo                                            metric.Float64Histogram
	inFlight, mailbox, held                                             metric.Int64ObservableGauge
	restarts, captures                                                  metric.Int64ObservableCounter
	sessions                                                            sessions
}

func newInstruments(m metric.Meter) (*instruments, error) {
	i := &instruments{}
	var errs []error
	counter := func(to *metric.Int64Counter, name, unit, about string) {
		var err error
		*to, err = m.Int64Counter("sandbox."+name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
	}
	seconds := func(to *metric.Float64Histogram, name, about string) {
		var err error
		*to, err = m.Float64Histogram("sandbox."+name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800))
		errs = append(errs, err)
	}
	gauge := func(to *metric.Int64ObservableGauge, name, unit, about string) {
		var err error
		*to, err = m.Int64ObservableGauge("sandbox."+name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
	}
	total := func(to *metric.Int64ObservableCounter, name, unit, about string) {
		var err error
		*to, err = m.Int64ObservableCounter("sandbox."+name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
	}
	counter(&i.steps, "steps", "{step}", "steps that ended")
	counter(&i.stored, "captured", "By", "bytes that steps keep in the undo log")
	counter(&i.affected, "affected_paths", "{path}", "paths that steps changed")
	counter(&i.safeguards, "safeguards", "{decision}", "safeguards decided")
	counter(&i.external, "external_modifications", "{path}", "announced edits from outside")
	counter(&i.recoveries, "recoveries", "{recovery}", "recoveries of the undo log")
	counter(&i.problems, "problems", "{event}", "warnings and errors told to frontends")
	seconds(&i.stepTime, "step.duration", "time from the start of a step to its end")
	seconds(&i.holdTime, "hold.duration", "time that a safeguard waited for its decision")
	seconds(&i.undo, "undo.duration", "time of an undo, redo or restore")
	gauge(&i.inFlight, "bridge.in_flight", "{request}", "requests that a bridge is serving")
	gauge(&i.mailbox, "mailbox.depth", "{message}", "messages that wait for an actor")
	gauge(&i.held, "held_operations", "{operation}", "operations held for a decision")
	total(&i.restarts, "actor.restarts", "{restart}", "restarts of actors after a crash")
	total(&i.captures, "first_touches", "{capture}", "preimages captured")
	errs = append(errs, i.observe(m))
	return i, errors.Join(errs...)
}

// sessions are those whose trees of actors are read whenever metrics are
// collected. What those that have ended had counted stays in the totals.
type sessions struct {
	mu    sync.Mutex
	open  map[api.Live]struct{}
	ended reading
}

// reading is a sum over trees. All actors of a kind are one series: directories
// and sessions are not told apart.
type reading struct {
	mailbox, restarts        map[string]int64 // by kind of actor
	held, inFlight, captures int64
}

func (s *sessions) add(l api.Live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[api.Live]struct{}{}
	}
	s.open[l] = struct{}{}
}

// remove is called when the session has ended; its tree can still be read.
func (s *sessions) remove(l api.Live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
	var last reading
	if tree, err := l.Inspect(context.Background()); err == nil {
		last.add(tree.Root, "session")
	}
	s.ended.captures += last.captures
	for kind, n := range last.restarts {
		s.ended.count(&s.ended.restarts, kind, n)
	}
}

func (s *sessions) read(ctx context.Context) reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := reading{captures: s.ended.captures, restarts: maps.Clone(s.ended.restarts)}
	for l := range s.open {
		if tree, err := l.Inspect(ctx); err == nil {
			r.add(tree.Root, "session")
		}
	}
	return r
}

func (r *reading) count(m *map[string]int64, kind string, n int64) {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[kind] += n
}

func (r *reading) add(n api.TreeNode, kind string) {
	r.count(&r.mailbox, kind, int64(n.Mailbox))
	r.count(&r.restarts, kind, int64(n.Restarts))
	r.held += int64(n.Holds)
	r.inFlight += fact(n, "in_flight")
	r.captures += fact(n, "captures")
	for _, c := range n.Children {
		name := c.Name
		if _, err := strconv.Atoi(name); err == nil {
			name = "directory"
		}
		r.add(c, name)
	}
}

// observe registers the reading.
func (i *instruments) observe(m metric.Meter) error {
	_, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		r := i.sessions.read(ctx)
		for kind, n := range r.mailbox {
			o.ObserveInt64(i.mailbox, n, metric.WithAttributes(attribute.String("actor", kind)))
		}
		for kind, n := range r.restarts {
			o.ObserveInt64(i.restarts, n, metric.WithAttributes(attribute.String("actor", kind)))
		}
		o.ObserveInt64(i.held, r.held)
		o.ObserveInt64(i.inFlight, r.inFlight)
		o.ObserveInt64(i.captures, r.captures)
		return nil
	}, i.inFlight, i.mailbox, i.held, i.restarts, i.captures)
	return err
}

func fact(n api.TreeNode, key string) int64 {
	v, err := strconv.ParseInt(n.Facts[key], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// hear turns the session's events into metrics, and into events of the spans
// of steps.
func (l *live) hear(e api.Event) {
	i, ctx := l.t.inst, l.ctx
	switch e.Type {
	case api.EventStepCompleted:
		l.stepCompleted(e)
	case api.EventSafeguardTriggered:
		if e.Pending != nil {
			l.mu.Lock()
			l.holds[e.Pending.ID] = e.At
			l.mu.Unlock()
			l.note(e, "safeguard triggered", attribute.String("kind", e.Pending.Kind))
		}
	case api.EventSafeguardDecided:
		if e.Decision == nil {
			return
		}
		l.mu.Lock()
		since, ok := l.holds[e.Decision.ID]
		delete(l.holds, e.Decision.ID)
		l.mu.Unlock()
		word := "deny"
		if e.Decision.Allow {
			word = "allow"
		}
		by := metric.WithAttributes(attribute.String("decision", word), attribute.String("by", decider(e.Decision.By)))
		i.safeguards.Add(ctx, 1, by)
		if ok {
			i.holdTime.Record(ctx, e.At.Sub(since).Seconds(), by)
		}
		l.note(e, "safeguard decided", attribute.String("decision", word))
	case api.EventExternalModification:
		i.external.Add(ctx, int64(max(e.AffectedCount, 1)))
	case api.EventRecovery:
		i.recoveries.Add(ctx, 1)
		l.span.AddEvent("recovery", trace.WithTimestamp(e.At))
	case api.EventWarning, api.EventError:
		i.problems.Add(ctx, 1, metric.WithAttributes(attribute.String("type", string(e.Type))))
	}
}

func (l *live) stepCompleted(e api.Event) {
	i, ctx := l.t.inst, l.ctx
	kind := "command"
	if e.Step < 0 {
		kind = "ambient"
	}
	if e.Entry != nil {
		kind = string(e.Entry.Type)
		i.stored.Add(ctx, e.Entry.StoredBytes)
		i.affected.Add(ctx, int64(e.Entry.AffectedCount))
	}
	if !e.Last {
		return
	}
	by := metric.WithAttributes(attribute.String("type", kind), attribute.String("outcome", e.Outcome))
	i.steps.Add(ctx, 1, by)
	if e.Entry == nil {
		return
	}
	i.stepTime.Record(ctx, e.Entry.EndedAt.Sub(e.Entry.StartedAt).Seconds(), by)
	if e.Entry.Type == undolog.TypeAmbient { // a step without a call
		_, span := l.t.tracer.Start(ctx, "ambient step", trace.WithTimestamp(e.Entry.StartedAt), trace.WithAttributes(
			attribute.Int64("sandbox.step_id", int64(e.Step)), attribute.Int("sandbox.affected", e.AffectedCount), attribute.Int64("sandbox.stored_bytes", e.Entry.StoredBytes)))
		span.End(trace.WithTimestamp(latest(e.Entry.EndedAt, e.Entry.StartedAt)))
	}
}

// decider is who decided, if that is one of a few: a series is kept for each.
func decider(by string) string {
	switch by {
	case "terminal", "cli", "stdio", "mcp", "timeout", "shutdown", "crash":
		return by
	}
	return "other"
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// note adds an event to the span of the step, or of the session.
func (l *live) note(e api.Event, name string, attrs ...attribute.KeyValue) {
	l.mu.Lock()
	span := l.steps[e.Step]
	l.mu.Unlock()
	if span == nil {
		span = l.span
	}
	span.AddEvent(name, trace.WithTimestamp(e.At), trace.WithAttributes(attrs...))
}
