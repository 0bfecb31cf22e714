package approvals

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// fakeSession is a session that a test drives.
type fakeSession struct {
	mu      sync.Mutex
	waiting []api.Pending
	events  chan api.Event
	ended   chan struct{}
	decided chan api.DecideRequest
}

func (s *fakeSession) Pending(context.Context) ([]api.Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting, nil
}

func (s *fakeSession) Decisions(context.Context) ([]api.Decided, error) {
	return nil, errors.New("unknown method")
}
func (s *fakeSession) TakeBack(context.Context, api.TakeBackRequest) error { return api.ErrStands }
func (s *fakeSession) Close(context.Context) error                         { return nil }
func (s *fakeSession) Decide(_ context.Context, r api.DecideRequest) error {
	s.decided <- r
	return messages.ErrDecided
}

func (s *fakeSession) Subscribe(ctx context.Context, f func(api.Event)) error {
	for {
		select {
		case e := <-s.events:
			f(e)
		case <-s.ended:
			return messages.ErrStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *fakeSession) ask(e api.EventType, waiting ...api.Pending) {
	s.mu.Lock()
	s.waiting = waiting
	s.mu.Unlock()
	s.events <- api.Event{Type: e}
}

// Sessions come, say what waits as it happens, and go; another one that comes later is heard, too.
func TestFeed(t *testing.T) {
	var mu sync.Mutex
	live := map[string]*fakeSession{}
	start := func(id string) *fakeSession {
		s := &fakeSession{events: make(chan api.Event), ended: make(chan struct{}), decided: make(chan api.DecideRequest, 1)}
		mu.Lock()
		live[id] = s
		mu.Unlock()
		return s
	}
	states, ends := make(chan state, 100), make(chan gone, 10)
	f := &feed{every: time.Millisecond, open: map[string]Session{}, send: func(m tea.Msg) {
		switch m := m.(type) {
		case state:
			states <- m
		case gone:
			ends <- m
		}
	}, source: Source{
		Sessions: func() (list []api.SessionInfo, err error) {
			mu.Lock()
			defer mu.Unlock()
			for id := range live {
				list = append(list, api.SessionInfo{Session: id})
			}
			return list, nil
		},
		Dial: func(_ context.Context, info api.SessionInfo) (Session, error) {
			mu.Lock()
			defer mu.Unlock()
			if s := live[info.Session]; s != nil {
				return s, nil
			}
			return nil, errors.New("gone")
		},
	}}
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		f.follow(ctx)
	}()
	waits := func(session string, n int) {
		t.Helper()
		for {
			if s := actortest.Within(t, "what waits", states); s.info.Session == session && len(s.waiting) == n {
				return
			}
		}
	}
	one := start("one")
	waits("one", 0)
	one.ask(api.EventSafeguardTriggered, api.Pending{ID: "sg_001"})
	waits("one", 1)
	two := start("two")
	waits("two", 0)
	if o := f.decide(ctx, "one", api.DecideRequest{ID: "sg_001"}, "done").(outcome); !errors.Is(o.err, messages.ErrDecided) || o.text != "done" {
		t.Errorf("%+v", o)
	}
	if r := <-one.decided; r.ID != "sg_001" {
		t.Errorf("%+v", r)
	}
	one.ask(api.EventSafeguardDecided)
	waits("one", 0)
	one.ask(api.EventNetwork, api.Pending{}) // about nothing that is shown
	mu.Lock()
	delete(live, "one")
	mu.Unlock()
	close(one.ended)
	if g := actortest.Within(t, "the end", ends); g.info.Session != "one" {
		t.Errorf("%+v", g)
	}
	if o := f.takeBack(ctx, "one", api.TakeBackRequest{}, "").(outcome); o.err == nil {
		t.Error("an ended session takes an answer back")
	}
	two.events <- api.Event{Type: api.EventWarning, Lost: 3} // some of which may have mattered
	waits("two", 0)
	stop()
	<-followed
}
