package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
)

const (
	lookEvery = 500 * time.Millisecond // how often it is looked whether sessions came or went, while a page is open
	beatEvery = 20 * time.Second       // how often a page is told that the server lives
	maxNews   = 256                    // different changes that wait for a page; more become one
)

// change says what a page shows that is no longer so. Without a folder and a session it is about all.
type change struct {
	What    string `json:"what"` // "sessions", "history", "decisions", "status", "tree", "clients", "config" or "build"
	Folder  string `json:"folder,omitempty"`
	Session string `json:"session,omitempty"`
}

// watcher is a page that hears of changes.
type watcher struct {
	news map[change]struct{}
	wake chan struct{} // room for one
}

// hub tells pages of changes. While there is a page it hears the events of all live sessions.
type hub struct {
	o Options

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc // of look; nil while nobody watches
	done     chan struct{}
	closed   bool
}

func newHub(o Options) *hub { return &hub{o: o, watchers: make(map[*watcher]struct{})} }

// join adds a page, or returns nil: there are too many.
func (h *hub) join() *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) >= maxPages || h.closed {
		return nil
	}
	w := &watcher{news: make(map[change]struct{}), wake: make(chan struct{}, 1)}
	h.watchers[w] = struct{}{}
	if h.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		h.stop, h.done = stop, done
		go func() {
			defer close(done)
			h.look(ctx)
		}()
	}
	return w
}

// leave takes a page away. With the last one the hub stops to listen.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	delete(h.watchers, w)
	var stop context.CancelFunc
	if len(h.watchers) == 0 {
		stop, h.stop = h.stop, nil
	}
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// close ends what listens, and waits for it.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	stop, done := h.stop, h.done
	h.stop = nil
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
	if done != nil {
		<-done
	}
}

// tell has every page hear of changes.
func (h *hub) tell(changes ...change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		for _, c := range changes {
			if len(w.news) >= maxNews {
				clear(w.news)
				for _, what := range []string{"sessions", "history", "decisions", "status", "tree", "clients", "config", "build"} {
					w.news[change{What: what}] = struct{}{}
				}
				break
			}
			w.news[c] = struct{}{}
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// take returns what a page has not heard yet.
func (h *hub) take(w *watcher) []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]change, 0, len(w.news))
	for c := range w.news {
		list = append(list, c)
	}
	clear(w.news)
	return list
}

// look hears the events of the sessions that are there, until ctx ends.
func (h *hub) look(ctx context.Context) {
	var heard sync.WaitGroup
	defer heard.Wait()
	gone := make(chan string)
	known := map[string]struct{}{}
	tick := make(chan struct{}, 1)
	again := func() { // as AfterFunc of an injected clock
		select {
		case tick <- struct{}{}:
		default:
		}
	}
	for {
		list, err := h.o.Sources.Sessions()
		if err != nil {
			h.o.Logger.Debug("sessions", "component", "ui", "err", err)
		}
		for _, info := range list {
			if _, ok := known[info.Session]; ok {
				continue
			}
			known[info.Session] = struct{}{}
			heard.Go(func() {
				h.hear(ctx, info)
				select {
				case gone <- info.Session:
				case <-ctx.Done():
				}
			})
		}
		cancel := h.o.Clock.AfterFunc(lookEvery, again)
		select {
		case <-ctx.Done():
			cancel()
			return
		case id := <-gone:
			cancel()
			delete(known, id)
			h.tell(change{What: "sessions"})
		case <-tick:
			cancel() // the tick may be an earlier timer's, which was due as something else happened
		}
	}
}

// hear tells of the events of one session until it ends.
func (h *hub) hear(ctx context.Context, info api.SessionInfo) {
	s, err := h.o.Sources.Dial(ctx, info)
	if err != nil {
		h.o.Logger.Debug("session does not answer", "component", "ui", "session", info.Session, "err", err)
		return
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	h.tell(change{What: "sessions"})
	err = s.Subscribe(ctx, func(e api.Event) { h.tell(changesOf(e, info)...) })
	h.o.Logger.Debug("session has ended", "component", "ui", "session", info.Session, "err", err)
}

// changesOf is what an event changes of what pages show.
func changesOf(e api.Event, info api.SessionInfo) []change {
	folder := folderID(e.Directory)
	if e.Directory == "" {
		folder = ""
	}
	status := change{"status", "", info.Session}
	switch e.Type {
	case api.EventStepStarted, api.EventStepCompleted, api.EventRecovery, api.EventExternalModification, api.EventVersionMismatch:
		return []change{status, {"history", folder, info.Session}, {"tree", "", info.Session}}
	case api.EventSafeguardTriggered, api.EventSafeguardDecided:
		return []change{status, {"decisions", "", info.Session}, {"tree", "", info.Session}}
	case api.EventSessionState:
		return []change{{What: "sessions"}, status}
	default:
		return []change{status}
	}
}

// events streams changes to a page.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	me := s.hub.join()
	if me == nil {
		return &problem{http.StatusServiceUnavailable, "too_many_pages", fmt.Sprintf("%d pages are open already", maxPages), "close some of them"}
	}
	defer s.hub.leave(me)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the page stays
	w.Header().Set("Content-Type", "text/event-stream")
	id := 0
	send := func(event string, data any) error {
		b, err := json.Marshal(data)
		if err != nil {
			return err
		}
		id++
		_ = out.SetWriteDeadline(time.Now().Add(time.Minute)) // a page that does not read is given up
		if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", id, event, b); err != nil {
			return err
		}
		return out.Flush()
	}
	if send("hello", map[string]string{"version": s.o.Version}) != nil {
		return nil
	}
	beat := make(chan struct{}, 1)
	for {
		cancel := s.o.Clock.AfterFunc(beatEvery, func() {
			select {
			case beat <- struct{}{}:
			default:
			}
		})
		select {
		case <-r.Context().Done():
			cancel()
			return nil
		case <-me.wake:
			for _, c := range s.hub.take(me) {
				if send("changed", c) != nil {
					cancel()
					return nil
				}
			}
		case <-beat:
			if send("beat", struct{}{}) != nil {
				return nil
			}
		}
		cancel()
	}
}
