package watcher

import (
	"strconv"
	"testing"

	"github.com/fsnotify/fsnotify"

	"github.com/codeagent/sandbox/tests/actortest"
)

// source hands events over one by one, as fsnotify does without a buffer.
type source struct {
	events chan fsnotify.Event
	errs   chan error
}

func (s *source) Add(string) error              { return nil }
func (s *source) Events() <-chan fsnotify.Event { return s.events }
func (s *source) Errors() <-chan error          { return s.errs }
func (s *source) Close() error                  { return nil }

// A burst is read in runs with rests between them, and nothing of it is lost.
func TestBurstIsReadInRuns(t *testing.T) {
	clock := actortest.NewFakeClock()
	src := &source{events: make(chan fsnotify.Event), errs: make(chan error)}
	w, err := New(Options{Root: "/work/dir", Source: src, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	event := func(i int) fsnotify.Event { return fsnotify.Event{Name: "/work/dir/sub/f" + strconv.Itoa(i)} }
	src.events <- event(0)
	clock.WaitArmed(rest)
	select {
	case src.events <- event(1):
		t.Error("reading goes on at once")
	default:
	}
	const events = 1000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := 1; i <= events; i++ { // the last shows that the others are noted
			src.events <- event(i)
		}
	}()
	for done := false; !done; {
		select {
		case <-sent:
			done = true
		default:
			clock.Advance(rest)
		}
	}
	if got := w.take().paths; len(got) < events || got[0] != "sub/f0" {
		t.Errorf("%d of %d events were seen", len(got), events)
	}
}
