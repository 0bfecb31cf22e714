package actors

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A subscriber that does not come back costs a bounded queue; what it still gets
// are results rather than announcements, and how much it missed.
func TestBusSlowSubscriber(t *testing.T) {
	b := newBus(supervision.RealClock{})
	first, release, seen := make(chan Event, 1), make(chan struct{}), make(chan Event, 2*queued)
	cancel := b.subscribe(func(e Event) {
		if e.Step == -1 {
			first <- e
			<-release
			return
		}
		seen <- e
	})
	b.emit(Event{Type: EventWarning, Step: -1})
	actortest.Within(t, "the first event", first)
	const results = 100
	for i := range 3 * queued {
		b.emit(Event{Type: EventExternalModification, Paths: make([]string, 1000)})
		if i < results {
			b.emit(Event{Type: EventStepCompleted})
		}
	}
	for s := range b.subs {
		if len(s.queue) > queued {
			t.Errorf("%d events are queued", len(s.queue))
		}
	}
	close(release)
	cancel()
	b.close()
	close(seen)
	got, lost := 0, ""
	for e := range seen {
		if len(e.Paths) > 0 && (len(e.Paths) > 100 || e.AffectedCount != 1000) {
			t.Fatalf("%d paths of %d", len(e.Paths), e.AffectedCount)
		}
		switch e.Type {
		case EventStepCompleted:
			got++
		case EventWarning:
			lost = e.Message
		}
	}
	if got != results || !strings.Contains(lost, "dropped") {
		t.Errorf("%d of %d results, %q", got, results, lost)
	}
}

// Who only measures does not take the beginning from the one who shows it.
func TestObserverLeavesTheBacklog(t *testing.T) {
	b := newBus(supervision.RealClock{})
	b.emit(Event{Type: EventRecovery})
	var mu sync.Mutex
	got := map[string]int{}
	hear := func(who string) func(Event) {
		return func(Event) { mu.Lock(); defer mu.Unlock(); got[who]++ }
	}
	b.observe(hear("observer"))
	b.emit(Event{Type: EventWarning})
	cancel := b.subscribe(hear("frontend"))
	b.emit(Event{Type: EventError})
	cancel()
	cancel()
	b.close()
	if got["observer"] != 3 || got["frontend"] != 3 {
		t.Errorf("heard: %v, want 3 each", got)
	}
}

// Who names types is told of these, from now on, and takes the beginning from
// nobody.
func TestBusOnly(t *testing.T) {
	b := newBus(supervision.RealClock{})
	b.emit(Event{Type: EventSafeguardTriggered, Step: 1})
	var some, all []int64
	cancel := b.subscribe(func(e Event) { some = append(some, int64(e.Step)) }, EventSafeguardTriggered)
	defer cancel()
	b.emit(Event{Type: EventStepStarted, Step: 2})
	b.emit(Event{Type: EventSafeguardTriggered, Step: 3})
	b.subscribe(func(e Event) { all = append(all, int64(e.Step)) })
	b.emit(Event{Type: EventSafeguardTriggered, Step: 4})
	b.close() // when everything is delivered
	if !slices.Equal(some, []int64{3, 4}) || !slices.Equal(all, []int64{1, 2, 3, 4}) {
		t.Errorf("%v, %v", some, all)
	}
}
