package watcher

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

const (
	// debounce is how long changes are collected.
	debounce = 100 * time.Millisecond
	// soon is how long they are collected where somebody inside waits for them, and apart how far batches are then.
	soon, apart = 20 * time.Millisecond, debounce / 2
	// MaxBatch is how many paths of one batch are looked at singly.
	MaxBatch = 16384
	// rest is how long reading pauses after each run of events.
	rest = 20 * time.Millisecond
)

// Source is where events come from: the kernel, or a test.
type Source interface {
	// Add watches the directory dir (relative to the root), if it is the inode id.
	Add(dir string, id hostfs.ID) error
	// Read waits for events. Any error says that there are no more.
	Read() (Batch, error)
	Close() error
}

// Batch is what a [Source] read at once.
type Batch struct {
	Events []Event
	Unsure []Event     // what may have changed: caches forget it, but nobody is told of an edit
	Made   []Event     // those of Events that are of a directory that was made, or moved here
	Lost   bool        // some events were not kept
	Gone   []hostfs.ID // directories that are not watched any more
	Since  time.Time   // when the first of it may have happened; zero: now
}

// Event says that a name in a directory changed; an empty name is the directory
// itself.
type Event struct {
	Dir  Dir
	Name string
}

// Dir is a watched directory, where it is now. Dirs are compared.
type Dir interface {
	Path() (path string, ok bool) // relative to the root, which is ""
	ID() hostfs.ID                // zero: unknown
}

// Options make a [Watcher]. The functions must not block; Check and Bridge are
// required.
type Options struct {
	Root   string // the working folder
	Source Source // nil: the system's
	Clock  supervision.Clock
	Logger *slog.Logger
	Node   *supervision.Node

	// Check asks the undo log who changed the paths. done is called once, from any goroutine.
	Check func(paths []string, done func(undolog.Outside, error))
	// Bridge returns the bridge, or nil while there is none.
	Bridge func() fsbridge.Bridge
	// Ours is when we last changed something ourselves. What is seen well after
	// that is announced even where the log is not sure who did it.
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

	stopping sync.Once

	muted  muted
	prompt atomic.Bool // see Prompt

	mu      sync.Mutex
	seen    map[Event]bool // true: it has surely changed
	gone    []hostfs.ID
	first   time.Time       // of the batch
	heard   map[Event]heard // what may be busy: see busy
	dropped bool            // too much was seen
	lost    bool            // the kernel's queue overflowed
	tell    func(any)
	watches int

	all      bool     // every directory is watched, also new ones
	leaveOut []string // but for these; fixed once all is set
	most     int      // how many of those; 0: all
	made     []Event  // directories of this batch
}

type stirred struct{}

// Prompt has changes told sooner from now on, in smaller batches: somebody inside waits for them. It is
// safe for concurrent use.
func (w *Watcher) Prompt() { w.prompt.Store(true) }

type settled struct{}

// New makes a watcher and starts to collect. Close it.
func New(o Options) (*Watcher, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{o: o, src: o.Source, stop: make(chan struct{}), seen: map[Event]bool{}, heard: map[Event]heard{}}
	if w.src == nil {
		var err error
		if w.src, err = newSource(o.Root); err != nil {
			return nil, fmt.Errorf("watch %s for edits from outside: %w", o.Root, err)
		}
	}
	w.muted.dirs = map[hostfs.ID]struct{}{}
	w.muted.src, _ = w.src.(muter)
	go w.pump()
	w.o.Logger.Info("watching for edits from outside", "component", "file_watcher", "directory", o.Root)
	return w, nil
}

// Watch begins to watch the directory dir, given relative to the root, if it is
// the inode id, and reports whether it could.
func (w *Watcher) Watch(dir string, id hostfs.ID) bool {
	if err := w.src.Add(dir, id); err != nil {
		w.o.Logger.Debug("directory not watched", "component", "file_watcher", "path", dir, "err", err)
		return false
	}
	w.mu.Lock()
	w.watches++
	n := w.watches
	w.mu.Unlock()
	w.o.Node.SetFact("watches", strconv.Itoa(n))
	return true
}

// Stop stops collecting, and leaves to Close what the kernel is not through with: what watched an inode
// is freed in a grace period of its own, and a descriptor that is closed meanwhile waits up to 15 ms for
// the one after that (fsnotify_wait_marks_destroyed). It is safe for concurrent use.
func (w *Watcher) Stop() {
	w.stopping.Do(func() {
		close(w.stop)
		if f, ok := w.src.(forgetter); ok {
			f.forget()
		}
	})
}

// forgetter is a source that can give its watches up before it is closed. It reads nothing any more.
type forgetter interface{ forget() }

// Close stops collecting, and closes the source. It is called once.
func (w *Watcher) Close() error {
	w.Stop()
	w.muted.close()
	return w.src.Close()
}

// pump takes events in: what is there at once, and then nothing for a moment.
// Meanwhile the kernel collects, so that a burst, which mostly is our own,
// wakes it fifty times a second and not at each event.
func (w *Watcher) pump() {
	rested := make(chan struct{}, 1)
	for {
		b, err := w.src.Read()
		if err != nil {
			select {
			case <-w.stop:
			default:
				w.o.Logger.Error("edits from outside are not seen any more", "component", "file_watcher", "err", err)
				w.Report(Batch{Lost: true})
			}
			return
		}
		w.Report(b)
		w.o.Clock.AfterFunc(rest, func() { rested <- struct{}{} })
		select {
		case <-w.stop:
			return
		case <-rested:
		}
	}
}

// Report takes in what a source has read, and wakes the actor for the first of
// a batch.
func (w *Watcher) Report(b Batch) {
	for _, e := range w.report(b) {
		if dir, ok := e.Dir.Path(); ok {
			w.Busy(dir, e.Dir.ID())
		}
	}
}

// report is Report, and returns what is busy.
func (w *Watcher) report(b Batch) (busy []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy = w.busy(&b)
	fresh := w.idle()
	if fresh {
		w.first = w.o.Clock.Now()
	}
	if !b.Since.IsZero() && b.Since.Before(w.first) {
		w.first = b.Since
	}
	w.lost = w.lost || b.Lost
	w.gone = append(w.gone, b.Gone...)
	w.watches -= len(b.Gone)
	if w.all && !w.dropped {
		w.made = append(w.made, b.Made...)
	}
	for i, e := range slices.Concat(b.Events, b.Unsure) {
		if len(w.seen) >= MaxBatch {
			w.dropped = true
			break
		}
		w.seen[e] = w.seen[e] || i < len(b.Events)
	}
	if fresh && !w.idle() && w.tell != nil {
		w.tell(&stirred{})
	}
	return busy
}

// idle tells that nothing is waiting; mu is held.
func (w *Watcher) idle() bool {
	return len(w.seen) == 0 && len(w.gone) == 0 && !w.dropped && !w.lost
}

// batch is what was seen.
type batch struct {
	dirs          []fsbridge.DirChanges
	paths         []string
	made          []Event
	gone          []hostfs.ID
	first         time.Time
	dropped, lost bool
}

func (w *Watcher) take() batch {
	w.mu.Lock()
	b := batch{first: w.first, dropped: w.dropped, lost: w.lost, gone: w.gone, made: w.made}
	seen := w.seen
	w.seen, w.gone, w.made, w.dropped, w.lost = map[Event]bool{}, nil, nil, false, false
	w.mu.Unlock()
	at := map[Dir]int{}
	for e, sure := range seen {
		i, ok := at[e.Dir]
		if !ok {
			path, known := e.Dir.Path()
			if !known {
				continue // removed, or moved away: the directory above told of that
			}
			i = len(b.dirs)
			at[e.Dir] = i
			b.dirs = append(b.dirs, fsbridge.DirChanges{ID: e.Dir.ID(), Path: path})
		}
		d := &b.dirs[i]
		d.Names = append(d.Names, e.Name)
		if !sure || keptOpen(e.Name) {
			continue
		}
		if e.Name != "" {
			b.paths = append(b.paths, path.Join(d.Path, e.Name))
		} else if d.Path != "" {
			b.paths = append(b.paths, d.Path)
		}
	}
	slices.Sort(b.paths)
	b.paths = slices.Compact(b.paths)
	return b
}

// keptOpen tells whether a name is one that an NFS client gives to a file that was removed while somebody has it open, until
// nobody has any more ("silly rename": .nfs, and 24 digits). Nobody has edited it.
func keptOpen(name string) bool {
	digits, ok := strings.CutPrefix(name, ".nfs")
	return ok && len(digits) == 24 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Actor is the watcher's actor.
type Actor struct {
	w       *Watcher
	tell    func(any)
	timer   *supervision.Timer
	working bool
	again   bool
	looked  time.Time // when the last batch was taken
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
		pending := !a.w.idle()
		a.w.mu.Unlock()
		a.w.o.Node.SetState("watching")
		if pending {
			a.timer.Reset(debounce)
		}
	case *actor.Restarting, *actor.Stopping:
		a.timer.Stop()
	case *actor.Stopped:
	case *stirred:
		a.timer.Reset(a.wait())
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

// wait returns how long changes are collected from now on.
func (a *Actor) wait() time.Duration {
	if !a.w.prompt.Load() {
		return debounce
	}
	return max(soon, apart-a.w.o.Clock.Now().Sub(a.looked))
}

// look handles a batch on another goroutine, one at a time.
func (a *Actor) look() {
	if a.working {
		a.again = true
		return
	}
	b := a.w.take()
	if len(b.dirs) == 0 && len(b.gone) == 0 && !b.dropped && !b.lost {
		return
	}
	a.working, a.looked = true, a.w.o.Clock.Now()
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
	if w.watchesAll() {
		w.watchMade(b)
	}
	w.tellBridge(b)
	if len(b.paths) == 0 {
		done()
		return
	}
	w.o.Check(b.paths, func(found undolog.Outside, err error) {
		defer done()
		if err != nil && !errors.Is(err, messages.ErrStopped) { // an undo looks for itself
			w.o.Logger.Warn("changes not checked", "component", "file_watcher", "err", err)
		}
		if err != nil {
			found.Unsure = b.paths
		}
		paths := foreign(b, found, w.o.Ours())
		if len(paths) > 0 && w.o.External != nil {
			w.o.Logger.Info("external modification", "component", "file_watcher", "paths", len(paths))
			w.o.External(paths, found.Barriers)
		}
	})
}

func (w *Watcher) watchesAll() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// tellBridge has the kernel's caches follow.
func (w *Watcher) tellBridge(b batch) {
	to := w.o.Bridge()
	if to == nil {
		return
	}
	var err error
	switch c, ok := to.(fsbridge.DirInvalidator); {
	case ok:
		if len(b.gone) > 0 {
			err = c.Unwatched(b.gone)
		}
		if !b.dropped && !b.lost {
			err = errors.Join(err, c.ChangedIn(b.dirs))
		}
	case b.dropped || b.lost: // dropped already
	default:
		c, ok := to.(fsbridge.PathInvalidator)
		if !ok || len(b.gone) > 0 {
			w.invalidate(fsbridge.Changes{All: true})
			return
		}
		err = c.Changed(b.paths)
	}
	if err != nil {
		w.o.Logger.Warn("caches could not be told of a change", "component", "file_watcher", "err", err)
	}
}

// foreign returns the paths that somebody else changed: those of which the log is sure, and
// of a batch that began long after our last change, those of which it is not.
func foreign(b batch, found undolog.Outside, ours time.Time) []string {
	paths := slices.Clone(found.Others)
	if b.first.Sub(ours) > 10*debounce {
		paths = append(paths, found.Unsure...)
	}
	for _, br := range found.Barriers {
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
