package supervision

import (
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Backoff are the numbers of a [Strategy]; zero fields take the defaults in
// brackets.
type Backoff struct {
	First time.Duration // delay of the second restart in a row [50 ms]; the first is at once
	Max   time.Duration // longest delay [5 s]
	Limit int           // failures within Window before it gives up [8]
	// Window is how long an actor must behave for its failures to be forgotten
	// [60 s].
	Window time.Duration
}

// Strategy restarts a failing child alone: at once the first time, then after
// First, 2*First, 4*First ... up to Max, and stops it when Limit failures came
// within Window of each other. It is safe for concurrent use and may serve
// several parents.
type Strategy struct {
	clock  Clock
	b      Backoff
	logger *slog.Logger
	giveUp func(child string, reason any)

	mu   sync.Mutex
	runs map[string]*run
}

type run struct {
	failures int
	last     time.Time
}

var _ actor.SupervisorStrategy = (*Strategy)(nil)

// NewStrategy makes a Strategy. giveUp may be nil; it is called with the id of
// the child that is stopped for good and must not block.
func NewStrategy(clock Clock, b Backoff, logger *slog.Logger, giveUp func(child string, reason any)) *Strategy {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&b.First, 50*time.Millisecond)
	set(&b.Max, 5*time.Second)
	set(&b.Window, time.Minute)
	if b.Limit == 0 {
		b.Limit = 8
	}
	return &Strategy{clock: clock, b: b, logger: logger, giveUp: giveUp, runs: map[string]*run{}}
}

// HandleFailure implements [actor.SupervisorStrategy].
func (s *Strategy) HandleFailure(_ *actor.ActorSystem, parent actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	delay, ok := s.next(child.Id)
	if !ok {
		s.log().Error("actor given up", "component", "session", "actor", child.Id, "reason", reason)
		parent.StopChildren(child)
		if s.giveUp != nil {
			s.giveUp(child.Id, reason)
		}
		return
	}
	s.log().Warn("actor restarts", "component", "session", "actor", child.Id, "delay", delay)
	if delay == 0 {
		parent.RestartChildren(child)
		return
	}
	s.clock.AfterFunc(delay, func() { parent.RestartChildren(child) })
}

// next notes a failure and returns the delay before the restart, or false when
// the limit is reached.
func (s *Strategy) next(child string) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	r := s.runs[child]
	if r == nil || now.Sub(r.last) >= s.b.Window {
		r = &run{}
		s.runs[child] = r
	}
	r.failures++
	r.last = now
	switch {
	case r.failures >= s.b.Limit:
		delete(s.runs, child)
		return 0, false
	case r.failures == 1:
		return 0, true
	}
	delay := s.b.First
	for i := 2; i < r.failures && delay < s.b.Max; i++ {
		delay *= 2
	}
	return min(delay, s.b.Max), true
}

func (s *Strategy) log() *slog.Logger { return orDiscard(s.logger) }

func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
