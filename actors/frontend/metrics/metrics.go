package metrics

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/codeagent/sandbox/actors/api"
)

const (
	// maxScrapes are answered at a time; others get 503.
	maxScrapes = 4
	// statusTime bounds how long a scrape waits for a session's status.
	statusTime = time.Second
)

// Session is what is asked of a session.
type Session interface {
	Status(ctx context.Context) (api.Status, error)
	Observe(f func(api.Event)) (cancel func())
}

// Options make [Metrics].
type Options struct {
	// Version is told as a label.
	Version string
}

// Metrics is what is known of this process. Make it with [New].
type Metrics struct {
	registry *prometheus.Registry
	steps    *prometheus.CounterVec
	holds    *prometheus.CounterVec
	decided  *prometheus.CounterVec
	applied  *prometheus.HistogramVec

	mu       sync.Mutex
	sessions map[*joined]bool
	past     counts // of sessions that are gone
}

// New makes what is known of a process without sessions.
func New(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), sessions: map[*joined]bool{}, past: counts{},
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_steps_total", Help: "Steps that have ended, by outcome.",
		}, []string{"outcome"}),
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_holds_total", Help: "Questions that were held for a person, by kind.",
		}, []string{"kind"}),
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_decisions_total", Help: "Questions that were decided, by answer. A deadline denies.",
		}, []string{"answer"}),
		applied: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandbox_undo_duration_seconds", Help: "How long undos, redos and restores took, without the wait for their turn.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"operation"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sandbox_build_info", Help: "1, with the program's version.", ConstLabels: prometheus.Labels{"version": o.Version},
	})
	info.Set(1)
	for _, outcome := range []string{"completed", "cancelled", "denied", "failed"} {
		m.steps.WithLabelValues(outcome) // or a rate would miss the first
	}
	for _, answer := range []string{"allow", "deny"} {
		m.decided.WithLabelValues(answer)
	}
	for _, operation := range []string{"undo", "redo", "restore"} {
		m.applied.WithLabelValues(operation)
	}
	m.registry.MustRegister(m.steps, m.holds, m.decided, m.applied, info, collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.HTTPErrorOnError})
}

// Applied hears how long an undo, redo or restore took; see [api.Config]. Another operation is dropped.
func (m *Metrics) Applied(operation string, took time.Duration) {
	switch operation {
	case "undo", "redo", "restore":
		m.applied.WithLabelValues(operation).Observe(took.Seconds())
	}
}

// Join counts a session in until the result is called, which may be done once it has ended.
func (m *Metrics) Join(s Session) (leave func()) {
	j := &joined{session: s, counted: map[series]*monotonic{}}
	cancel := s.Observe(m.hear)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[j] = true
	return sync.OnceFunc(func() {
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		j.read()
		delete(m.sessions, j)
		for s, c := range j.counted {
			m.past[s] += c.total()
		}
	})
}

// hear counts events.
func (m *Metrics) hear(e api.Event) {
	switch {
	case e.Type == api.EventStepCompleted && e.Last && e.Others == 0:
		m.steps.WithLabelValues(known(e.Outcome, "completed", "cancelled", "denied", "failed")).Inc()
	case e.Type == api.EventSafeguardTriggered && e.Pending != nil:
		m.holds.WithLabelValues(kind(e.Pending.Kind)).Inc()
	case e.Type == api.EventSafeguardDecided && e.Decision != nil:
		answer := "deny"
		if e.Decision.Allow {
			answer = "allow"
		}
		m.decided.WithLabelValues(answer).Inc()
	}
}

// known returns a word, or "other" where it is none of some.
func known(word string, words ...string) string {
	for _, w := range words {
		if w == word {
			return w
		}
	}
	return "other"
}

// series is a counter with its labels: an operation of a bridge, or a figure of it.
type series struct{ name, bridge, kind string }

// counts are counters.
type counts map[series]float64

// monotonic is a counter whose source may begin again at 0.
type monotonic struct{ base, last float64 }

func (c *monotonic) see(n float64) {
	if n < c.last {
		c.base += c.last
	}
	c.last = n
}

func (c *monotonic) total() float64 { return c.base + c.last }

// joined is a session that is counted in. The lock of its Metrics protects it.
type joined struct {
	session Session
	counted map[series]*monotonic
}

// read asks the session what it does, and takes its counters. ok is false when it has ended.
func (j *joined) read() (st api.Status, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	st, err := j.session.Status(ctx)
	if err != nil {
		return st, false
	}
	for s, n := range requests(st) {
		c := j.counted[s]
		if c == nil {
			c = &monotonic{}
			j.counted[s] = c
		}
		c.see(n)
	}
	return st, true
}

// Figures of the mediated bridge that stand among its requests.
const (
	notifications, grants = "NOTIFICATIONS", "GRANTS"
	granted, recaptured   = "GRANTED", "RECAPTURED"
	mean                  = "MEAN_MICROSECONDS"
)

// requests are the counters of a session's bridges. Those of the mediated bridge's filter are the session's: each folder shows them.
func requests(st api.Status) counts {
	out := counts{}
	for _, d := range st.Directories {
		if d.Bridge == nil {
			continue
		}
		for name, n := range d.Bridge.Requests {
			switch name {
			case notifications:
				s := series{name: mediatedName}
				out[s] = max(out[s], float64(n))
			case grants:
				s := series{name: grantsName}
				out[s] = max(out[s], float64(n))
			case granted, recaptured, mean:
			default:
				out[series{requestsName, d.Bridge.Kind, strings.ToLower(name)}] += float64(n)
			}
		}
	}
	return out
}
