package approvals

import (
	"context"
	"fmt"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/codeagent/sandbox/actors/api"
)

// Session is a running one.
type Session interface {
	Pending(ctx context.Context) ([]api.Pending, error)
	Decide(ctx context.Context, r api.DecideRequest) error
	api.Decisions
	Subscribe(ctx context.Context, f func(api.Event)) error
	Close(ctx context.Context) error
}

// Source finds the sessions whose questions are shown.
type Source struct {
	Sessions func() ([]api.SessionInfo, error)
	Dial     func(ctx context.Context, info api.SessionInfo) (Session, error)
}

const (
	lookEvery = 500 * time.Millisecond // how often it is looked whether a session has come
	patience  = 20 * time.Second       // with a session that was asked something
)

// state is all that a session has to say.
type state struct {
	info    api.SessionInfo
	waiting []api.Pending
	decided []api.Decided
}

// answered is an answer as its event tells of it. The session says more, unless it ends before it can be asked.
type answered struct {
	info   api.SessionInfo
	answer api.DecideRequest
}

// gone says that a session has ended, or cannot be heard any more.
type gone struct{ info api.SessionInfo }

// looked says that it was looked for sessions, and why that failed.
type looked struct {
	sessions int
	err      error
}

// outcome is how an answer, or taking one back, went.
type outcome struct {
	text string
	err  error
}

// feed hears the sessions. Its methods are safe for concurrent use.
type feed struct {
	source Source
	every  time.Duration
	send   func(tea.Msg)

	mu   sync.Mutex
	open map[string]Session
}

// follow hears the sessions until ctx ends. What changes is sent.
func (f *feed) follow(ctx context.Context) {
	var heard sync.WaitGroup
	defer heard.Wait()
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	known, ended := map[string]bool{}, make(chan string)
	for {
		list, err := f.source.Sessions()
		f.send(looked{len(list), err})
		for _, info := range list {
			if known[info.Session] {
				continue
			}
			known[info.Session] = true
			heard.Go(func() {
				f.hear(ctx, info)
				select {
				case ended <- info.Session:
				case <-ctx.Done():
				}
			})
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case id := <-ended: // it may be there still, and is heard again at the next look
				delete(known, id)
			case <-tick.C:
				waiting = false
			}
		}
	}
}

// hear sends what a session has to say, each time that something has happened in it, until it ends.
func (f *feed) hear(ctx context.Context, info api.SessionInfo) {
	s, err := f.source.Dial(ctx, info)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.open[info.Session] = s
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.open, info.Session)
		f.mu.Unlock()
		_ = s.Close(context.WithoutCancel(ctx))
		f.send(gone{info})
	}()
	ctx, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	news := make(chan struct{}, 1)
	news <- struct{}{}
	asking.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-news:
			}
			if f.ask(ctx, s, info) != nil {
				stop()
				return
			}
		}
	})
	_ = s.Subscribe(ctx, func(e api.Event) {
		if !concerns(e) {
			return
		}
		if e.Type == api.EventSafeguardDecided && e.Decision != nil {
			f.send(answered{info, *e.Decision})
		}
		select {
		case news <- struct{}{}:
		default: // it will be asked anyway
		}
	})
}

// concerns reports whether an event may change what waits or what was decided.
func concerns(e api.Event) bool {
	switch e.Type {
	case api.EventSafeguardTriggered, api.EventSafeguardDecided, api.EventTakenBack, api.EventSessionState:
		return true
	}
	return e.Lost > 0
}

// ask asks a session for all that is shown of it.
func (f *feed) ask(ctx context.Context, s Session, info api.SessionInfo) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	waiting, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	decided, err := s.Decisions(ctx)
	if err != nil && ctx.Err() != nil {
		return err
	} // else it is one of an older program, which tells of no history
	f.send(state{info, waiting, decided})
	return nil
}

func (f *feed) session(id string) (Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.open[id]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("the session %s has ended", id)
}

// decide answers a question.
func (f *feed) decide(ctx context.Context, session string, r api.DecideRequest, done string) tea.Msg {
	return f.do(ctx, session, done, func(ctx context.Context, s Session) error { return s.Decide(ctx, r) })
}

// takeBack takes an answer back.
func (f *feed) takeBack(ctx context.Context, session string, r api.TakeBackRequest, done string) tea.Msg {
	return f.do(ctx, session, done, func(ctx context.Context, s Session) error { return s.TakeBack(ctx, r) })
}

func (f *feed) do(ctx context.Context, session, done string, what func(context.Context, Session) error) tea.Msg {
	s, err := f.session(session)
	if err != nil {
		return outcome{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return outcome{done, what(ctx, s)}
}
