package undolog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/capture"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/stamps"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Log is the undo log of one working folder. See the package documentation for
// which methods may run concurrently.
type Log struct {
	o       Options
	root    *hostfs.Root // the working folder
	dir     *hostfs.Root // the undo directory
	at      *store.Dirs  // and those in it
	log     *slog.Logger
	now     func() time.Time
	lock    int    // descriptor of the lock file
	made    string // what was made for the directory, its topmost; empty: it was there
	ids     *store.IDs
	stamps  *stamps.Table // edits from outside
	worker  worker
	reserve *store.Reserve
	held    *store.Links

	cur    atomic.Pointer[capture.Step]
	sign   atomic.Pointer[store.AliveSign] // of the open step
	own    atomic.Pointer[store.OwnAlive]  // of the open step
	limits atomic.Pointer[Limits]
	known  known // which step directories there are
	closed atomic.Bool

	volumes    *format.Volumes
	renumbered *store.Renumbering

	marks *store.Marks

	outputs *store.Outputs

	host *capture.Host // what open steps share

	written atomic.Pointer[map[hostfs.ID]struct{}]
	cut     map[StepID]struct{} // groups of which steps were pushed out
	looks   atomic.Bool         // nothing was changed yet, see Options.Looks
	rest    rest
}

// Open opens the log in o.Dir, making it if it is missing, and locks it until
// Close. It does not recover an open step: call Recover.
//
// It returns a *LockedError if another process holds it, a *VersionError if it
// was written by another version of the format and a *ForeignError if it is
// another folder's (nothing is changed then), and
// an error wrapping ErrUndoDir if the directory cannot be used: not a
// directory, not writable, inside the working folder or around it, damaged.
func Open(ctx context.Context, o Options) (*Log, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o = withDefaults(o)
	l := &Log{o: o, root: o.Root, log: o.Logger, now: o.Now, lock: -1}
	l.limits.Store(&o.Limits)
	l.looks.Store(true)
	if err := l.open(); err != nil {
		_ = l.unmake(func() error { l.release(); return nil })
		return nil, err
	}
	return l, nil
}

// Limits returns the limits that hold now.
func (l *Log) Limits() Limits { return *l.limits.Load() }

// SetLimits changes the limits. The next step's end, or a GC, evicts what is
// above them; a step that is open is held to them from here on. It may be called
// at any time.
func (l *Log) SetLimits(n Limits) {
	n = limitsWithDefaults(n)
	l.limits.Store(&n)
}

// limitsWithDefaults fills in what l leaves open.
func limitsWithDefaults(l Limits) Limits {
	d := DefaultSettings().Limits
	return Limits{
		LogBytes: cmp.Or(l.LogBytes, d.LogBytes), StepCount: cmp.Or(l.StepCount, d.StepCount), StepBytes: cmp.Or(l.StepBytes, d.StepBytes),
		Age: cmp.Or(l.Age, d.Age), AdoptedRaw: cmp.Or(l.AdoptedRaw, d.AdoptedRaw),
		InlineBytes: min(cmp.Or(l.InlineBytes, d.InlineBytes), format.MaxRecord/4),
	}
}

func withDefaults(o Options) Options {
	o.Limits = limitsWithDefaults(o.Limits)
	d := DefaultSettings()
	o.Symlinks, o.Barriers, o.Durability = cmp.Or(o.Symlinks, d.Symlinks), cmp.Or(o.Barriers, d.Barriers), cmp.Or(o.Durability, d.Durability)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("component", "undolog")
	return o
}

func (l *Log) open() (err error) {
	if err = fault.Check(); err != nil {
		return err
	}
	l.made = firstMissing(l.o.Dir)
	if l.dir, err = store.OpenDir(l.o.Dir, l.root, true); err != nil {
		return err
	}
	l.reserve = store.NewReserve(l.dir.FD())
	l.held = store.NewLinks(l.dir)
	if err = l.claim(); err != nil {
		return err
	}
	l.renumbered = store.NewRenumbering(l.dir.FD(), l.volumes, l.log)
	if l.at, err = store.OpenDirs(l.dir.FD(), l.volumes); err != nil {
		return store.Unusable(l.o.Dir, err)
	}
	if err = l.load(); err != nil {
		return err
	}
	l.openMarks()
	l.openOutput()
	if l.ids, err = store.OpenIDs(l.dir.FD(), l.largestID); err != nil {
		return store.Unusable(l.o.Dir, err)
	}
	if l.host, err = l.newHost(); err != nil {
		return err
	}
	if err = l.openStamps(); err != nil {
		return err
	}
	if l.o.Looks {
		return nil
	}
	return l.wake()
}

// wake ends looking: what was left by whoever had the log before is put right. Whatever changes
// the folder or the log calls it first.
func (l *Log) wake() error {
	if hostfs.ReadOnly(l.dir.FD()) {
		return store.Unusable(l.o.Dir, posix.EROFS)
	}
	if !l.looks.CompareAndSwap(true, false) {
		return nil
	}
	if err := l.lender().TakeBack(); err != nil {
		l.log.Warn("modes not given back", "err", err)
	}
	if err := l.catchUp(context.Background()); err != nil {
		l.log.Warn("stamps of the newest step not taken", "err", err)
	}
	if err := l.enforceLimits(); err != nil {
		return err
	}
	if !l.unrecovered() { // else a recovery may keep the step that was open
		l.sweepOutput()
	}
	l.tidy()
	return nil
}

// claim locks the directory, and makes sure that the log in it is of this format and of
// this folder before anything in it is changed.
func (l *Log) claim() (err error) {
	var was Owner
	if l.lock, was, err = store.TakeLock(l.dir); err != nil {
		return err
	}
	if err = store.CheckVersion(l.dir); err != nil {
		return err
	}
	path, err := filepath.Abs(l.root.Path())
	if err != nil {
		return store.Unusable(l.o.Dir, err)
	}
	if _, err = store.Prove(l.dir, l.root, path, was.WorkDir); err != nil {
		return err
	}
	if err = store.Upgrade(l.dir); err != nil {
		return err
	}
	if l.volumes, err = store.OpenVolumes(l.dir, l.root, l.log); err != nil {
		return err
	}
	// On a read-only disk one can still look, and nobody else can do more.
	if err = store.WriteOwner(l.lock, l.o.Owner); err != nil && (!l.o.Looks || !errors.Is(err, posix.EROFS)) {
		return store.Unusable(l.o.Dir, err)
	}
	return nil
}

func (l *Log) release() {
	l.worker.stop(true)
	l.stamps.Close()
	l.outputs.Close()
	if l.held != nil {
		l.held.Close()
	}
	if l.ids != nil {
		l.ids.Close()
	}
	if l.lock >= 0 {
		store.Unlock(l.lock)
	}
	l.at.Close()
	if l.dir != nil {
		_ = l.dir.Close()
	}
}

// Close releases the log. An open step stays in wal/in_progress and is rolled
// back by the next Recover: commit or abort it first. Further calls return
// ErrClosed.
func (l *Log) Close() error {
	if !l.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	l.takeOpen()
	l.release()
	return nil
}

// SetOwner rewrites what the lock file says about this process.
func (l *Log) SetOwner(o Owner) error {
	if l.closed.Load() {
		return ErrClosed
	}
	return store.WriteOwner(l.lock, o)
}

// NextID reserves an id for a step of type t: positive for commands and API
// calls, negative for ambient steps. It is never given again in this log, also
// not after a restart. 0 means that it could not be persisted.
func (l *Log) NextID(t StepType) StepID {
	id, err := l.ids.NextStep(t)
	if err != nil {
		l.log.Error("step id not reserved", "err", err)
		return 0
	}
	return id
}

// Held implements [fsbridge.LinkHolder].
func (l *Log) Held(id hostfs.ID) int { return l.held.Names(id) }

// Discard removes the log in dir, whatever its version, and leaves an empty
// directory in which [Open] starts afresh. It removes only what a log owns,
// and follows no symlink. It returns a *LockedError while somebody holds the
// log.
func Discard(ctx context.Context, dir string) error { return store.Discard(ctx, dir) }

// Current returns the id of the open step.
func (l *Log) Current() (StepID, bool) {
	if s := l.cur.Load(); s != nil {
		return s.ID(), true
	}
	return 0, false
}

// Written says which files somebody inside can write to without asking, at this
// moment. It is called before Commit, and before an undo. Until the next call, whatever
// becomes of their content is no edit from outside.
func (l *Log) Written(ids []hostfs.ID) {
	l.own.Load().OnlyLent(ids)
	if len(ids) == 0 {
		l.written.Store(nil)
		return
	}
	set := make(map[hostfs.ID]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	l.written.Store(&set)
}

func (l *Log) isWritten(id hostfs.ID) bool {
	set := l.written.Load()
	if set == nil {
		return false
	}
	_, ok := (*set)[id]
	return ok
}

// warn passes w to Options.Warn.
func (l *Log) warn(w Warning) {
	level := slog.LevelWarn
	if w.Code == WarnLeftOut || w.Usual {
		level = slog.LevelInfo // the log is in order
	}
	l.log.Log(context.Background(), level, w.Message, "code", w.Code, "steps", w.Steps)
	if l.o.Warn != nil {
		l.o.Warn(w)
	}
}
