package watcher

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/fsnotify/fsnotify"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/supervision"
)

const (
	// debounce is how long changes are collected.
	debounce = 100 * time.Millisecond
	// MaxBatch is how many paths of one batch are looked at singly.
	MaxBatch = 16384
	// rest is how long reading pauses after each run of events.
	rest = 20 * time.Millisecond
)

// Source is where events come from: fsnotify, or a test.
type Source interface {
	Add(path string) error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	Close() error
}

// Options make a [Watcher]. The functions must not block; Check and Bridge are
// required.
type Options struct {
	Root   string // the working folder
	Source Source // nil: fsnotify
	Clock  supervision.Clock
	Logger *slog.Logger
	Node   *supervision.Node

	// Check asks the undo log which paths were changed by somebody else since a
	// step left them. done is called once, from any goroutine.
	Check func(paths []string, done func([]undolog.Barrier, error))
	// Bridge returns the bridge, or nil while there is none.
	Bridge func() fsbridge.Bridge
	// Ours is when we last changed something ourselves. What is seen well after
	// that is announced even where no step ever touched it.
	Ours func() time.Time
	// External is told what was changed, with the barriers that came of it.
	External func(paths []string, barriers []undolog.Barrier)
	// Overflow is told that edits may have been missed.
	Overflow func(message string)
}

// Watcher collects events. It outlives restarts of its actor. Methods are safe
// for concurrent use.
type Watcher struct {
	o    Options
	src  Source
	stop chan struct{}
	// prefix is what the paths of events begin with.
	prefix string

	mu      sync.Mutex
	seen    map[string]struct{}
	first   time.Time // of the batch
	dropped bool      // too much was seen
	lost    bool      // the kernel's queue overflowed
	tell    func(any)
	watches int
}

type stirred struct{}
type settled struct{}

// New makes a watcher and starts to collect. Close it.
func New(o Options) (*Watcher, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{o: o, src: o.Source, stop: make(chan struct{}), seen: map[string]struct{}{},
		prefix: strings.TrimSuffix(filepath.Clean(o.Root), "/") + "/"}
	if w.src == nil {
		src, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, fmt.Errorf("watch %s for edits from outside: %w", o.Root, err)
		}
		w.src = notifySource{src}
	}
	go w.pump()
	w.o.Logger.Info("watching for edits from outside", "component", "file_watcher", "directory", o.Root)
	return w, nil
}

type notifySource struct{ *fsnotify.Watcher }

func (s notifySource) Events() <-chan fsnotify.Event { return s.Watcher.Events }
func (s notifySource) Errors() <-chan error          { return s.Watcher.Errors }

// Watch begins to watch a directory, given relative to the root, and reports
// whether it could.
func (w *Watcher) Watch(dir string) bool {
	if err := w.src.Add(filepath.Join(w.o.Root, dir)); err != nil {
		w.o.Logger.Debug("directory not watched", "component", "file_watcher", "path", dir, "err", err)
		return false
	}
	w.mu.Lock()
	w.watches++
	n := w.watches
	w.mu.Unlock()
	w.o.Node.SetFact("watches", fmt.Sprint(n))
	return true
}

// Close stops collecting.
func (w *Watcher) Close() error {
	close(w.stop)
	return w.src.Close()
}

// pump takes events in: what is there at once, and then nothing for a moment.
// Meanwhile the source's goroutine waits for us and the kernel collects, so
// that a burst, which mostly is our own, wakes it fifty times a second and not
// at each event.
func (w *Watcher) pump() {
	errs := w.src.Errors()
	rested := make(chan struct{}, 1)
	for {
		select {
		case <-w.stop:
			return
		case ev, ok := <-w.src.Events():
			if !ok || !w.drain(ev) {
				return
			}
		case err, ok := <-errs:
			if !ok {
				return
			}
			w.Report(err)
			continue
		}
		w.o.Clock.AfterFunc(rest, func() { rested <- struct{}{} })
		select {
		case <-w.stop:
			return
		case <-rested:
		}
	}
}

// drain notes ev and what follows it without a break. The source has no buffer:
// it needs a turn of the processor to offer the next event. It returns false
// when there are no more for good.
func (w *Watcher) drain(ev fsnotify.Event) bool {
	w.note(ev.Name, false)
	for turns := 0; turns < 4; turns++ {
		select {
		case ev, ok := <-w.src.Events():
			if !ok {
				return false
			}
			w.note(ev.Name, false)
			turns = 0
		default:
			runtime.Gosched()
		}
	}
	return true
}

// Report takes in an error of the source; an overflow drops every cache.
func (w *Watcher) Report(err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.note("", true)
		return
	}
	w.o.Logger.Warn("watcher", "component", "file_watcher", "err", err)
}

// note adds one event to the batch and wakes the actor for the first.
func (w *Watcher) note(name string, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := len(w.seen) == 0 && !w.dropped && !w.lost
	if fresh {
		w.first = w.o.Clock.Now()
	}
	switch {
	case lost:
		w.lost = true
	case len(w.seen) >= MaxBatch:
		w.dropped = true
	default:
		rel, ok := strings.CutPrefix(name, w.prefix)
		if !ok || rel == "" {
			return
		}
		w.seen[rel] = struct{}{}
	}
	if fresh && w.tell != nil {
		w.tell(&stirred{})
	}
}

// batch is what was seen.
type batch struct {
	paths         []string
	first         time.Time
	dropped, lost bool
}

func (w *Watcher) take() batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := batch{slices.Sorted(maps.Keys(w.seen)), w.first, w.dropped, w.lost}
	w.seen, w.dropped, w.lost = map[string]struct{}{}, false, false
	return b
}

// Actor is the watcher's actor.
type Actor struct {
	w       *Watcher
	tell    func(any)
	timer   *supervision.Timer
	working bool
	again   bool
}

// NewActor makes a fresh instance.
func NewActor(w *Watcher) *Actor { return &Actor{w: w} }

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		self, root := ctx.Self(), ctx.ActorSystem().Root
		a.tell = func(m any) { root.Send(self, m) }
		a.timer = supervision.NewTimer(a.w.o.Clock, a.tell)
		a.w.mu.Lock()
		a.w.tell = a.tell
		pending := len(a.w.seen) > 0 || a.w.dropped || a.w.lost
		a.w.mu.Unlock()
		a.w.o.Node.SetState("watching")
		if pending {
			a.timer.Reset(debounce)
		}
	case *actor.Restarting, *actor.Stopping:
		a.timer.Stop()
	case *actor.Stopped:
	case *stirred:
		a.timer.Reset(debounce)
	case *supervision.Tick:
		if a.timer.Fresh(m) {
			a.look()
		}
	case *settled:
		a.working = false
		if a.again {
			a.again = false
			a.look()
		}
	default:
		a.w.o.Logger.Error("unknown message", "component", "file_watcher", "type", fmt.Sprintf("%T", m))
	}
}

// look handles a batch on another goroutine, one at a time.
func (a *Actor) look() {
	if a.working {
		a.again = true
		return
	}
	b := a.w.take()
	if len(b.paths) == 0 && !b.dropped && !b.lost {
		return
	}
	a.working = true
	go a.w.handle(b, func() { a.tell(&settled{}) })
}

func (w *Watcher) handle(b batch, done func()) {
	if b.dropped || b.lost {
		w.o.Logger.Warn("too many changes at once: every cache is dropped", "component", "file_watcher", "queue_overflow", b.lost)
		w.invalidate(fsbridge.Changes{All: true})
		if b.lost && w.o.Overflow != nil {
			w.o.Overflow("too many changes at once in " + w.o.Root + ": edits from outside may not have been announced; undo checks for them")
		}
	}
	if bridge := w.o.Bridge(); bridge != nil && !b.dropped && !b.lost {
		if c, ok := bridge.(interface{ Changed(paths []string) error }); ok {
			if err := c.Changed(b.paths); err != nil {
				w.o.Logger.Warn("caches could not be told of a change", "component", "file_watcher", "err", err)
			}
		} else {
			w.invalidate(fsbridge.Changes{All: true})
		}
	}
	if len(b.paths) == 0 {
		done()
		return
	}
	w.o.Check(b.paths, func(barriers []undolog.Barrier, err error) {
		defer done()
		if err != nil {
			w.o.Logger.Warn("changes not checked", "component", "file_watcher", "err", err)
		}
		paths := foreign(b, barriers, w.o.Ours())
		if len(paths) > 0 && w.o.External != nil {
			w.o.Logger.Info("external modification", "component", "file_watcher", "paths", len(paths))
			w.o.External(paths, barriers)
		}
	})
}

// foreign returns the paths that somebody else changed: those of barriers, and
// everything in a batch that began long after our last change.
func foreign(b batch, barriers []undolog.Barrier, ours time.Time) []string {
	if b.first.Sub(ours) > 10*debounce {
		return b.paths
	}
	var paths []string
	for _, br := range barriers {
		paths = append(paths, br.Paths...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (w *Watcher) invalidate(c fsbridge.Changes) {
	if bridge := w.o.Bridge(); bridge != nil {
		if err := bridge.Invalidate(c); err != nil {
			w.o.Logger.Warn("caches could not be dropped", "component", "file_watcher", "err", err)
		}
	}
}
