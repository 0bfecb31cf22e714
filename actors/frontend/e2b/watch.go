package e2b

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// Messages of the watches of filesystem.Filesystem, as JSON has them.
type (
	watchRequest struct {
		Path         string `json:"path"`
		Recursive    bool   `json:"recursive"`
		IncludeEntry bool   `json:"includeEntry"`
		WatcherID    string `json:"watcherId"`
	}
	fileEvent struct {
		Name  string     `json:"name"`
		Type  string     `json:"type"`
		Entry *entryInfo `json:"entry,omitempty"`
	}
	watchEvent struct {
		Start      *struct{}  `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		Keepalive  *struct{}  `json:"keepalive,omitempty"`
	}
)

const (
	// maxWatchers is how many watchers a sandbox has whose events are asked for, and maxEvents how many events one keeps.
	maxWatchers = api.ViewWatches
	maxEvents   = 4096
)

var errMissed = errors.New("events were lost")

// eventName is what clients call a kind of event; empty for what they do not hear of.
func eventName(t string) string {
	switch t {
	case api.PathCreated:
		return "EVENT_TYPE_CREATE"
	case api.PathWritten:
		return "EVENT_TYPE_WRITE"
	case api.PathRemoved:
		return "EVENT_TYPE_REMOVE"
	case api.PathRenamed:
		return "EVENT_TYPE_RENAME"
	case api.PathChmod:
		return "EVENT_TYPE_CHMOD"
	}
	return ""
}

// watch gives emit what happens in a directory.
func (p *place) watch(ctx context.Context, m watchRequest, ready func(), emit func(fileEvent) error) error {
	abs, err := p.path(m.Path)
	if err != nil {
		return err
	}
	i, err := p.live.StatPath(ctx, api.PathRequest{Path: abs})
	if err != nil {
		return err
	}
	if i.Type != api.PathDirectory && i.TargetType != api.PathDirectory {
		return wire.Fail(http.StatusBadRequest, "%s is no directory", abs)
	}
	t := &translator{after: p.after, emit: func(e api.PathEvent) error {
		out := fileEvent{Name: frontend.Valid(e.Path), Type: eventName(e.Type)}
		if out.Type == "" || e.Path == "." {
			return nil
		}
		if m.IncludeEntry && e.Type != api.PathRemoved && e.Type != api.PathRenamed {
			if i, err := p.live.StatPath(ctx, api.PathRequest{Path: path.Join(abs, e.Path)}); err == nil {
				entry := entryOf(i)
				out.Entry = &entry
			}
		}
		return emit(out)
	}}
	defer t.end()
	return p.live.WatchPath(ctx, api.WatchPathRequest{Path: abs, Recursive: m.Recursive, Ready: ready}, t.event)
}

// ownPrefix begins the names of files that a write of ours makes before they get their names.
const ownPrefix = ".sandbox-"

// renameWait is how long a name that is gone may wait for the one that it has become.
const renameWait = 50 * time.Millisecond

// translator makes of what happens to names what clients expect. The undo log takes a file away by a rename, which is told as a removal, if no new name comes at once; and a file that the API writes gets its name in the end, by a
// rename as well, which is told as a write. Its methods are safe for concurrent use.
type translator struct {
	after func(time.Duration, func()) (stop func() bool)
	emit  func(api.PathEvent) error

	mu   sync.Mutex
	gone *api.PathEvent // a rename that may be a removal
	own  bool           // the last one was of a file of ours
	stop func() bool
	err  error
}

// event takes the next event.
func (t *translator) event(e api.PathEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Type == api.PathOverflow {
		return wire.Fail(http.StatusTooManyRequests, "more happened than could be told: look at the directory, and watch it again")
	}
	if strings.HasPrefix(path.Base(e.Path), ownPrefix) {
		t.own = e.Type == api.PathRenamed
		return t.err
	}
	named := t.own && e.Type == api.PathCreated
	t.own = false
	t.settle(e.Type == api.PathCreated && !named)
	if e.Type == api.PathRenamed {
		t.gone = &e
		t.stop = t.after(renameWait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.settle(false)
		})
		return t.err
	}
	t.tell(e)
	if named {
		t.tell(api.PathEvent{Type: api.PathWritten, Path: e.Path})
	}
	return t.err
}

// settle tells of the name that is gone: a rename if it has a new one. The caller holds mu.
func (t *translator) settle(renamed bool) {
	if t.gone == nil {
		return
	}
	t.stop()
	e := *t.gone
	t.gone = nil
	if !renamed {
		e.Type = api.PathRemoved
	}
	t.tell(e)
}

func (t *translator) tell(e api.PathEvent) {
	if t.err == nil {
		t.err = t.emit(e)
	}
}

// end drops what waits.
func (t *translator) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone != nil {
		t.stop()
		t.gone = nil
	}
}

// watchDir streams what happens in a directory.
func (s *Server) watchDir(r *http.Request, p *place, message []byte, open func() *stream) error {
	var m watchRequest
	if err := wire.Decode(message, &m); err != nil {
		return err
	}
	timeout, err := deadlineOf(r)
	if err != nil {
		return err
	}
	ctx, _, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var out *stream
	ready := make(chan struct{})
	stop := func() {}
	defer func() { stop() }()
	return p.watch(ctx, m, func() {
		out = open()
		stop = s.keepAlive(out, watchEvent{Keepalive: &struct{}{}}, keepAliveOf(r))
		_ = out.send(watchEvent{Start: &struct{}{}}) // the next one will say that nobody reads
		close(ready)
	}, func(e fileEvent) error {
		<-ready
		return out.send(watchEvent{Filesystem: &e})
	})
}

// watchers are those of a sandbox whose events clients ask for. They end with the session.
type watchers struct {
	mu  sync.Mutex
	all map[string]*watcher
}

// watcher keeps events until they are asked for.
type watcher struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	events []fileEvent
	err    error // it has ended, or has lost events
}

func newWatchers() *watchers { return &watchers{all: map[string]*watcher{}} }

// createWatcher begins to watch, and returns when it does.
func (p *place) createWatcher(ctx context.Context, _ string, message []byte) (any, error) {
	var m watchRequest
	if err := wire.Decode(message, &m); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watcher{cancel: cancel}
	id := wire.NewID()
	p.watchers.mu.Lock()
	full := len(p.all) >= maxWatchers
	if !full {
		p.all[id] = w
	}
	p.watchers.mu.Unlock()
	if full {
		cancel()
		return nil, wire.Fail(http.StatusTooManyRequests, "the sandbox has %d watchers: remove one", maxWatchers)
	}
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		defer cancel()
		err := p.watch(life, m, func() { close(ready) }, w.keep)
		w.end(err)
		over <- err
	}()
	select {
	case <-ready:
		return map[string]string{"watcherId": id}, nil
	case err := <-over:
		p.forget(id)
		if err == nil {
			err = wire.Fail(http.StatusNotFound, "the directory is gone")
		}
		return nil, err
	case <-ctx.Done():
		cancel()
		p.forget(id)
		return nil, ctx.Err()
	}
}

// keep keeps an event.
func (w *watcher) keep(e fileEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) >= maxEvents {
		return errMissed
	}
	w.events = append(w.events, e)
	return nil
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, errMissed):
		w.err = wire.Fail(http.StatusTooManyRequests, "more than %d events have happened since they were asked for last: look at the directory, and watch it again", maxEvents)
	case err == nil:
		w.err = wire.Fail(http.StatusNotFound, "the directory is gone")
	default:
		w.err = err
	}
}

// events gives what has happened since it was asked last.
func (p *place) events(_ context.Context, _ string, message []byte) (any, error) {
	w, err := p.watcherOf(message)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 && w.err != nil {
		return nil, w.err
	}
	out := struct {
		Events []fileEvent `json:"events"`
	}{api.OrEmpty(w.events)}
	w.events = nil
	return out, nil
}

// removeWatcher ends a watch.
func (p *place) removeWatcher(_ context.Context, _ string, message []byte) (any, error) {
	w, err := p.watcherOf(message)
	if err != nil {
		return nil, err
	}
	w.cancel()
	var m watchRequest
	_ = wire.Decode(message, &m) // it was read just now
	p.forget(m.WatcherID)
	return struct{}{}, nil
}

func (p *place) watcherOf(message []byte) (*watcher, error) {
	var m watchRequest
	if err := wire.Decode(message, &m); err != nil {
		return nil, err
	}
	p.watchers.mu.Lock()
	defer p.watchers.mu.Unlock()
	if w := p.all[m.WatcherID]; w != nil {
		return w, nil
	}
	return nil, wire.Fail(http.StatusNotFound, "there is no watcher %q", frontend.Short([]byte(m.WatcherID)))
}

func (w *watchers) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, id)
}

// endWatchers ends all of them.
func (w *watchers) endWatchers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		one.cancel()
	}
}
