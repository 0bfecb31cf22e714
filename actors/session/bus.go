package session

import (
	"fmt"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/supervision"
)

const (
	// backlog is how many events are kept for the first subscriber: what
	// happened while the session started.
	backlog = 256
	// queued is how many events wait for a slow subscriber. What does not fit is
	// dropped: a frontend that stopped reading must not cost the memory of
	// everything that happens meanwhile.
	queued = 4096
)

// Bus hands events to subscribers in order, each on a goroutine of its own, so
// that a slow one delays nobody. It outlives the session's actors: what happens
// before they are there, and after they have stopped, is told, too. Methods are
// safe for concurrent use.
type Bus struct {
	clock supervision.Clock

	mu     sync.Mutex
	early  []api.Event // until a frontend subscribes
	subs   map[*subscriber]struct{}
	shown  int // of subs: all but observers
	closed bool
	wg     sync.WaitGroup
}

type subscriber struct {
	f func(api.Event)

	mu    sync.Mutex
	only  []api.EventType // what it is told of; empty means everything
	queue []api.Event
	lost  int  // events dropped since the last delivery
	busy  bool // run runs
}

// NewBus makes a bus that nobody listens to.
func NewBus(clock supervision.Clock) *Bus {
	return &Bus{clock: clock, subs: map[*subscriber]struct{}{}}
}

// Emit stamps the event and never blocks.
func (b *Bus) Emit(e api.Event) {
	e.At = b.clock.Now()
	if e.AffectedCount == 0 {
		e.AffectedCount = len(e.Paths)
	}
	e.Paths = e.Paths[:min(len(e.Paths), undolog.HistoryPaths)]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == 0 && len(b.early) < backlog && !b.closed {
		b.early = append(b.early, e)
	}
	for s := range b.subs {
		if len(s.only) == 0 || slices.Contains(s.only, e.Type) {
			s.push(e)
			b.wake(s)
		}
	}
}

func (s *subscriber) push(e api.Event) {
	s.mu.Lock()
	if len(s.queue) >= queued {
		// A quarter at once, so that a queue that stays full costs little.
		s.lost += len(s.queue)
		s.queue = shed(s.queue, queued/4)
		s.lost -= len(s.queue)
	}
	s.queue = append(s.queue, e)
	s.mu.Unlock()
}

// shed drops n events: the oldest of those that only announce something, then
// the oldest.
func shed(queue []api.Event, n int) []api.Event {
	kept := slices.DeleteFunc(queue, func(e api.Event) bool {
		if n > 0 && (e.Type == api.EventWarning || e.Type == api.EventExternalModification || e.Type == api.EventStepStarted || e.Type == api.EventNetwork) {
			n--
			return true
		}
		return false
	})
	return slices.Delete(kept, 0, n)
}

// Subscribe calls f for every event, or for every one of some types. Who names
// types is told of what comes, not of what happened before.
func (b *Bus) Subscribe(f func(api.Event), only ...api.EventType) (cancel func()) {
	if len(only) > 0 {
		return b.join(f, 0, only)
	}
	return b.join(f, 1, nil)
}

// Observe is Subscribe for who shows nothing to anybody: the first frontend
// gets what happened before it all the same.
func (b *Bus) Observe(f func(api.Event)) (cancel func()) { return b.join(f, 0, nil) }

func (b *Bus) join(f func(api.Event), shown int, only []api.EventType) (cancel func()) {
	s := &subscriber{f: f, only: only}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(only) == 0 {
		s.queue = slices.Clone(b.early)
	}
	if shown > 0 {
		b.early = nil
	}
	if b.closed {
		return func() {}
	}
	b.subs[s] = struct{}{}
	b.shown += shown
	if len(s.queue) > 0 {
		b.wake(s)
	}
	return func() {
		b.mu.Lock()
		if _, ok := b.subs[s]; ok {
			delete(b.subs, s)
			b.shown -= shown
		}
		b.mu.Unlock()
	}
}

// wake starts run, unless it runs. The caller holds the bus's lock.
func (b *Bus) wake(s *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return
	}
	s.busy = true
	b.wg.Go(s.run)
}

// run delivers until nothing is queued.
func (s *subscriber) run() {
	for {
		s.mu.Lock()
		events, lost := s.queue, s.lost
		s.queue, s.lost = nil, 0
		s.busy = len(events) > 0
		s.mu.Unlock()
		if len(events) == 0 {
			return
		}
		if lost > 0 {
			s.f(api.Event{
				Type: api.EventWarning, At: events[0].At, Lost: lost,
				Message: fmt.Sprintf("%d event(s) were dropped because this frontend reads too slowly; ask for the history and the status", lost),
			})
		}
		for _, e := range events {
			s.f(e)
		}
	}
}

// Close ends all subscriptions once everything was delivered.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed = true
	b.subs = map[*subscriber]struct{}{}
	b.mu.Unlock()
	b.wg.Wait()
}
