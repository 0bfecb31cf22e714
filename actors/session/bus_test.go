package session

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A subscriber that does not come back costs a bounded queue; what it still gets
// are results rather than announcements, and how much it missed.
func TestBusSlowSubscriber(t *testing.T) {
	b := NewBus(supervision.RealClock{})
	first, release, seen := make(chan api.Event, 1), make(chan struct{}), make(chan api.Event, 2*queued)
	cancel := b.Subscribe(func(e api.Event) {
		if e.Step == -1 {
			first <- e
			<-release
			return
		}
		seen <- e
	})
	b.Emit(api.Event{Type: api.EventWarning, Step: -1})
	actortest.Within(t, "the first event", first)
	const results = 100
	for i := range 3 * queued {
		b.Emit(api.Event{Type: api.EventExternalModification, Paths: make([]string, 1000)})
		if i < results {
			b.Emit(api.Event{Type: api.EventStepCompleted})
		}
	}
	for s := range b.subs {
		if len(s.queue) > queued {
			t.Errorf("%d events are queued", len(s.queue))
		}
	}
	close(release)
	cancel()
	b.Close()
	close(seen)
	got, lost := 0, ""
	for e := range seen {
		if len(e.Paths) > 0 && (len(e.Paths) > 100 || e.AffectedCount != 1000) {
			t.Fatalf("%d paths of %d", len(e.Paths), e.AffectedCount)
		}
		switch e.Type {
		case api.EventStepCompleted:
			got++
		case api.EventWarning:
			lost = e.Message
		}
	}
	if got != results || !strings.Contains(lost, "dropped") {
		t.Errorf("%d of %d results, %q", got, results, lost)
	}
}

// Who only measures does not take the beginning from the one who shows it.
func TestObserverLeavesTheBacklog(t *testing.T) {
	b := NewBus(supervision.RealClock{})
	b.Emit(api.Event{Type: api.EventRecovery})
	var mu sync.Mutex
	got := map[string]int{}
	hear := func(who string) func(api.Event) {
		return func(api.Event) { mu.Lock(); defer mu.Unlock(); got[who]++ }
	}
	b.Observe(hear("observer"))
	b.Emit(api.Event{Type: api.EventWarning})
	cancel := b.Subscribe(hear("frontend"))
	b.Emit(api.Event{Type: api.EventError})
	cancel()
	cancel()
	b.Close()
	if got["observer"] != 3 || got["frontend"] != 3 {
		t.Errorf("heard: %v, want 3 each", got)
	}
}

// Who names types is told of these, from now on, and takes the beginning from
// nobody.
func TestBusOnly(t *testing.T) {
	b := NewBus(supervision.RealClock{})
	b.Emit(api.Event{Type: api.EventSafeguardTriggered, Step: 1})
	var some, all []int64
	cancel := b.Subscribe(func(e api.Event) { some = append(some, int64(e.Step)) }, api.EventSafeguardTriggered)
	defer cancel()
	b.Emit(api.Event{Type: api.EventStepStarted, Step: 2})
	b.Emit(api.Event{Type: api.EventSafeguardTriggered, Step: 3})
	b.Subscribe(func(e api.Event) { all = append(all, int64(e.Step)) })
	b.Emit(api.Event{Type: api.EventSafeguardTriggered, Step: 4})
	b.Close() // when everything is delivered
	if !slices.Equal(some, []int64{3, 4}) || !slices.Equal(all, []int64{1, 2, 3, 4}) {
		t.Errorf("%v, %v", some, all)
	}
}
