package actors

import (
	"sync"

	"github.com/codeagent/sandbox/supervision"
)

// backlog is how many events are kept for the first subscriber: what happened
// while the session started.
const backlog = 256

// bus hands events to subscribers in order, each on a goroutine of its own, so
// that a slow one delays nobody.
type bus struct {
	clock supervision.Clock

	mu     sync.Mutex
	early  []Event // until somebody subscribes
	subs   map[*subscriber]struct{}
	closed bool
	wg     sync.WaitGroup
}

type subscriber struct {
	mu    sync.Mutex
	cond  *sync.Cond
	queue []Event
	done  bool
}

func newBus(clock supervision.Clock) *bus {
	return &bus{clock: clock, subs: map[*subscriber]struct{}{}}
}

// emit stamps the event and never blocks.
func (b *bus) emit(e Event) {
	e.At = b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.subs) == 0 && len(b.early) < backlog && !b.closed {
		b.early = append(b.early, e)
	}
	for s := range b.subs {
		s.push(e)
	}
}

func (s *subscriber) push(events ...Event) {
	s.mu.Lock()
	s.queue = append(s.queue, events...)
	s.mu.Unlock()
	s.cond.Signal()
}

// subscribe calls f for every event. cancel returns when f will not be called
// again, unless f itself calls it.
func (b *bus) subscribe(f func(Event)) (cancel func()) {
	s := &subscriber{}
	s.cond = sync.NewCond(&s.mu)
	b.mu.Lock()
	defer b.mu.Unlock()
	s.queue, b.early = b.early, nil
	if b.closed {
		return func() {}
	}
	b.subs[s] = struct{}{}
	b.wg.Add(1)
	go func() {
		defer b.wg.Done()
		s.run(f)
	}()
	return func() {
		b.mu.Lock()
		delete(b.subs, s)
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
		events, done := s.queue, s.done
		s.queue = nil
		s.mu.Unlock()
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
