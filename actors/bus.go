package actors

import (
	"fmt"
	"slices"
	"sync"

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

// bus hands events to subscribers in order, each on a goroutine of its own, so
// that a slow one delays nobody.
type bus struct {
	clock supervision.Clock

	mu     sync.Mutex
	early  []Event // until a frontend subscribes
	subs   map[*subscriber]struct{}
	shown  int // of subs: all but observers
	closed bool
	wg     sync.WaitGroup
}

type subscriber struct {
	mu    sync.Mutex
	cond  *sync.Cond
	queue []Event
	lost  int // events dropped since the last delivery
	done  bool
}

func newBus(clock supervision.Clock) *bus {
	return &bus{clock: clock, subs: map[*subscriber]struct{}{}}
}

// emit stamps the event and never blocks.
func (b *bus) emit(e Event) {
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
		s.push(e)
	}
}

func (s *subscriber) push(e Event) {
	s.mu.Lock()
	if len(s.queue) >= queued {
		// A quarter at once, so that a queue that stays full costs little.
		s.lost += len(s.queue)
		s.queue = shed(s.queue, queued/4)
		s.lost -= len(s.queue)
	}
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	s.cond.Signal()
}

// shed drops n events: the oldest of those that only announce something, then
// the oldest.
func shed(queue []Event, n int) []Event {
	kept := slices.DeleteFunc(queue, func(e Event) bool {
		if n > 0 && (e.Type == EventWarning || e.Type == EventExternalModification || e.Type == EventStepStarted || e.Type == EventNetwork) {
			n--
			return true
		}
		return false
	})
	return slices.Delete(kept, 0, n)
}

// subscribe calls f for every event. cancel returns when f will not be called
// again, unless f itself calls it.
func (b *bus) subscribe(f func(Event)) (cancel func()) { return b.join(f, 1) }

// observe is subscribe for who shows nothing to anybody: the first frontend
// gets what happened before it all the same.
func (b *bus) observe(f func(Event)) (cancel func()) { return b.join(f, 0) }

func (b *bus) join(f func(Event), shown int) (cancel func()) {
	s := &subscriber{}
	s.cond = sync.NewCond(&s.mu)
	b.mu.Lock()
	defer b.mu.Unlock()
	s.queue = slices.Clone(b.early)
	if shown > 0 {
		b.early = nil
	}
	if b.closed {
		return func() {}
	}
	b.subs[s] = struct{}{}
	b.shown += shown
	b.wg.Add(1)
	go func() {
		defer b.wg.Done()
		s.run(f)
	}()
	return func() {
		b.mu.Lock()
		if _, ok := b.subs[s]; ok {
			delete(b.subs, s)
			b.shown -= shown
		}
		b.mu.Unlock()
		s.end()
	}
}

// end lets run deliver what is queued and return.
func (s *subscriber) end() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.cond.Signal()
}

func (s *subscriber) run(f func(Event)) {
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.done {
			s.cond.Wait()
		}
		events, done, lost := s.queue, s.done, s.lost
		s.queue, s.lost = nil, 0
		s.mu.Unlock()
		if lost > 0 {
			f(Event{
				Type: EventWarning, At: events[0].At, Lost: lost,
				Message: fmt.Sprintf("%d event(s) were dropped because this frontend reads too slowly; ask for the history and the status", lost),
			})
		}
		for _, e := range events {
			f(e)
		}
		if done && len(events) == 0 {
			return
		}
	}
}

// close ends all subscriptions once everything was delivered.
func (b *bus) close() {
	b.mu.Lock()
	b.closed = true
	for s := range b.subs {
		s.end()
	}
	b.subs = map[*subscriber]struct{}{}
	b.mu.Unlock()
	b.wg.Wait()
}
