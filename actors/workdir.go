package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/actors/watcher"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/fuse"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/ninep"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// workdir is one working folder of a session, as this package composes it.
type workdir struct {
	s     *Session
	index int
	d     Directory
	root  *hostfs.Root
	// log, hooks and watch are nil for a read-only folder and, with mismatch
	// set, for one whose log has another format.
	log      *undolog.Log
	hooks    *interceptor.Hooks
	watch    *watcher.Watcher
	mismatch *undolog.VersionError
	meta     *posixLog // log with the metadata that the file system cannot hold; or nil
	tell     messages.Tell
	node     *supervision.Node
	bridge   fsbridge.Bridge   // nil until a transport is there
	files    *files.Folder     // nil until it is known what to hide
	warnings []undolog.Warning // newest last; guarded by Session.mu
}

// open opens the folder and its log.
func (w *workdir) open(ctx context.Context) (err error) {
	if w.root, err = hostfs.OpenRoot(w.d.Path); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDirectory, w.d.Path, err)
	}
	if w.d.ReadOnly {
		return nil
	}
	cfg := w.s.cfg
	w.log, err = undolog.Open(ctx, undolog.Options{
		Dir: w.d.UndoDir, Root: w.root, Limits: cfg.Limits, Symlinks: cfg.Symlinks, Barriers: cfg.Barriers,
		Durability: cfg.Durability, Gitignore: cfg.Gitignore, Now: w.s.clock.Now, Logger: w.s.component("undo").With("directory", w.d.Path),
		Owner: undolog.Owner{PID: os.Getpid(), Session: w.s.id, WorkDir: w.d.Path},
		Warn:  w.warn,
	})
	if errors.As(err, &w.mismatch) && cfg.Runtime == nil {
		w.s.bus.Emit(Event{Type: EventVersionMismatch, Directory: w.d.Path, Message: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	return w.openPosix()
}

func (w *workdir) warn(u undolog.Warning) {
	w.keep(u)
	t := EventWarning
	if u.Code == undolog.WarnExternal {
		t = EventExternalModification
	}
	w.s.bus.Emit(Event{Type: t, Directory: w.d.Path, Message: u.Message, Warning: &u})
}

// theBridge returns the bridge, or nil.
func (w *workdir) theBridge() fsbridge.Bridge {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.bridge
}

// intercept makes the hooks of a writable folder.
func (w *workdir) intercept() {
	cfg, path := w.s.cfg, w.d.Path
	var log interceptor.Log = w.log
	if w.meta != nil {
		log = w.meta
	}
	w.hooks = interceptor.New(interceptor.Options{
		Directory: path, Log: log, Clock: w.s.clock, Logger: cfg.Logger,
		Safeguards:  interceptor.Safeguards(w.s.safeguards()),
		AmbientIdle: cfg.Timing.AmbientIdle, ReplyDeadline: cfg.Timing.ReplyDeadline,
		Node: w.s.tree.Node(w.path("interceptor")), Safeguard: w.s.to("safeguard"), Owner: w.s.to("steps"),
		Events: interceptor.Events{
			Recovered: func(r *undolog.Recovery) {
				w.s.bus.Emit(Event{Type: EventRecovery, Directory: path, Step: r.StepID, Recovery: r, Message: recoveryText(r)})
			},
			AmbientClosed: func(e *undolog.Entry) {
				w.s.bus.Emit(Event{
					Type: EventStepCompleted, Directory: path, Step: e.StepID, Entry: e,
					Message: e.Status, Outcome: e.Status, AffectedCount: e.AffectedCount, Last: true,
				})
			},
			Failed: func(msg string) { w.s.bus.Emit(Event{Type: EventError, Directory: path, Message: msg}) },
		},
	})
}

// showCaptures adds the number of captures to the interceptor's node.
func (w *workdir) showCaptures() {
	w.s.tree.Node(w.path("interceptor")).SetLive(func(n *supervision.Snapshot) {
		if n.Facts == nil {
			n.Facts = map[string]string{}
		}
		n.Facts["captures"] = strconv.FormatInt(w.hooks.Captures(), 10)
	})
}

func recoveryText(r *undolog.Recovery) string {
	switch {
	case r.CompletedRollback:
		return fmt.Sprintf("an interrupted rollback was finished: %d paths restored", r.Restored)
	case r.Unprotected:
		return fmt.Sprintf("step %d was interrupted; it had outgrown its limit and was kept as it is", r.StepID)
	}
	return fmt.Sprintf("step %d was interrupted and has been rolled back: %d paths restored", r.StepID, r.Restored)
}

// path is the place of one of the folder's actors in the tree.
func (w *workdir) path(name string) string {
	return w.s.path("directory/" + strconv.Itoa(w.index) + "/" + name)
}

// watchFor starts to watch for edits from outside.
func (w *workdir) watchFor() (err error) {
	w.watch, err = watcher.New(watcher.Options{
		Root: w.d.Path, Clock: w.s.clock, Logger: w.s.cfg.Logger, Node: w.s.tree.Node(w.path("watcher")),
		Check: func(paths []string, done func([]undolog.Barrier, error)) {
			if w.tell == nil {
				done(nil, nil)
				return
			}
			w.tell(&interceptor.External{Paths: paths, Reply: messages.OnReply(done)})
		},
		Bridge: w.theBridge,
		Ours: func() time.Time {
			if w.hooks == nil {
				return time.Time{}
			}
			return w.hooks.LastMutation()
		},
		External: func(paths []string, barriers []undolog.Barrier) {
			msg := fmt.Sprintf("%d path(s) changed outside the sandbox", len(paths))
			if len(barriers) > 0 {
				msg += "; an undo will not overwrite them unless it is forced"
			}
			w.s.bus.Emit(Event{Type: EventExternalModification, Directory: w.d.Path, Paths: paths, Message: msg})
		},
		Overflow: func(msg string) { w.warn(undolog.Warning{Code: WarnWatch, Message: msg}) },
	})
	return err
}

// share is the folder as the runtime sees it.
func (w *workdir) share() hypervisor.Share {
	return hypervisor.Share{HostPath: w.d.Path, GuestPath: w.d.Path, ReadOnly: w.d.ReadOnly, Serve: w.serve}
}

// serve starts the bridge on the connection that the runtime made.
func (w *workdir) serve(t hypervisor.Transport) error {
	log := w.s.component("fs_backend").With("directory", w.d.Path)
	o := vfs.Options{
		Root: w.root, Hidden: t.Hide, ReadOnly: w.d.ReadOnly, Logger: log,
		SymlinksReadOnly: w.s.cfg.Symlinks == undolog.SymlinkReadOnly,
	}
	if w.hooks != nil {
		o.Hooks = w.hooks
	}
	if int(t.UID) != os.Geteuid() {
		o.Owner = &vfs.Owner{UID: t.UID, GID: t.GID}
	}
	if w.s.cfg.PosixMetadata && w.meta != nil {
		o.Posix = w.meta.overlay
	}
	if w.s.cfg.CacheNone {
		o.Cache = vfs.CacheNone
	}
	if w.watch != nil {
		o.OnList, o.OnBusy = w.watch.Watch, w.watch.Busy
	}
	b, err := serveOn(t, o)
	if err != nil {
		log.Error("backend not started", "backend", backend(t.Kind), "err", err)
		return err
	}
	log.Info("backend started", "backend", backend(t.Kind), "read_only", w.d.ReadOnly, "cache_none", o.Cache == vfs.CacheNone)
	w.s.mu.Lock()
	w.bridge = b
	w.s.mu.Unlock()
	if err := w.readable(t.Hide); err != nil {
		return err
	}
	if w.hooks != nil {
		pids := t.HostPID
		if v, ok := b.(interface{ HostPID(uint32) (uint32, error) }); ok {
			pids = v.HostPID
		}
		w.hooks.SetHostPID(pids)
		w.hooks.SetBridge(b)
	}
	w.s.tree.Node(w.path("bridge")).SetLive(func(n *supervision.Snapshot) {
		n.State = "serving"
		n.Facts = map[string]string{"in_flight": strconv.Itoa(b.InFlight())}
	})
	return nil
}

// backend is what a bridge is called in logs.
func backend(k hypervisor.TransportKind) string {
	switch k {
	case hypervisor.TransportVhost:
		return "virtiofs"
	case hypervisor.TransportP9:
		return "9p"
	}
	return "fuse"
}

// serveOn starts the bridge that speaks a transport's language. It takes over
// the transport's file or stream, also on error.
func serveOn(t hypervisor.Transport, o vfs.Options) (fsbridge.Bridge, error) {
	switch t.Kind {
	case hypervisor.TransportFUSE:
		b, err := fuse.ServeFile(t.File, o)
		if err != nil {
			return nil, err
		}
		return b, nil
	case hypervisor.TransportP9:
		v := ninep.Options{Tree: o, Sync: t.Sync}
		if t.Drop != nil {
			v.Drop = func(ninep.Stale) error { return t.Drop(context.Background()) }
		}
		b, err := ninep.Serve(t.Stream, v)
		if err != nil {
			return nil, err
		}
		return b, nil
	case hypervisor.TransportVhost:
		v := virtiofs.Options{Tree: o, Sync: t.Sync}
		if t.Drop != nil {
			v.Drop = func(virtiofs.Stale) error { return t.Drop(context.Background()) }
		}
		b, err := virtiofs.ServeFile(t.File, v)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	return nil, errors.Join(fmt.Errorf("no bridge for transport %d: %w", t.Kind, errors.ErrUnsupported), t.File.Close())
}

// close gives everything back. The guest has ended.
func (w *workdir) close() error {
	var errs []error
	w.closeFiles()
	if b := w.theBridge(); b != nil {
		errs = append(errs, b.Close())
		w.s.component("fs_backend").Info("backend stopped", "directory", w.d.Path)
	}
	if w.watch != nil {
		errs = append(errs, w.watch.Close())
	}
	if w.log != nil {
		errs = append(errs, w.log.Close())
	}
	if w.meta != nil {
		errs = append(errs, w.meta.store.Close())
	}
	if w.root != nil {
		errs = append(errs, w.root.Close())
	}
	return errors.Join(errs...)
}

// usable returns an error when the folder has no history.
func (w *workdir) usable() error {
	switch {
	case w.mismatch != nil:
		return w.mismatch
	case w.log == nil:
		return fmt.Errorf("%w: %s", messages.ErrReadOnlyDirectory, w.d.Path)
	}
	return nil
}

// givenUp tells whether err is the answer of an Interceptor that is not restarted
// any more: its folder is read-only, and the session goes on.
func (w *workdir) givenUp(err error) bool {
	if !errors.Is(err, messages.ErrStopped) || w.hooks == nil {
		return false
	}
	state, _ := w.hooks.State()
	return state == "read_only"
}

// lost gives that answer its meaning for frontends.
func (w *workdir) lost(err error) error {
	if !w.givenUp(err) {
		return err
	}
	_, problem := w.hooks.State()
	return fmt.Errorf("%w: %s", messages.ErrReadOnlyDirectory, problem)
}

// stepDir is the folder as the step actor sees it.
type stepDir struct{ *workdir }

var _ step.Directory = stepDir{}

func (d stepDir) Path() string           { return d.d.Path }
func (d stepDir) NextID() undolog.StepID { return d.log.NextID(undolog.TypeCommand) }
func (d stepDir) InFlight() int          { return d.hooks.InFlight() }
func (d stepDir) Holding() bool          { return d.hooks.Holding() }
func (d stepDir) LastMutation() time.Time {
	return d.hooks.LastMutation()
}

func (d stepDir) Assign(id undolog.StepID, info undolog.StepInfo, done func(error)) {
	d.tell(&interceptor.Assign{ID: id, Info: info, Reply: messages.OnReply(func(_ struct{}, err error) {
		if d.givenUp(err) { // other folders' commands are not stopped by this
			err = nil
		}
		done(err)
	})})
}

func (d stepDir) Close(id undolog.StepID, r undolog.StepResult, done func(*undolog.Entry, error)) {
	d.tell(&interceptor.Close{ID: id, Result: r, Reply: messages.OnReply(func(e *undolog.Entry, err error) {
		if open, ok := d.log.Current(); d.givenUp(err) && (!ok || open != id) { // it changed nothing here
			err = nil
		}
		done(e, d.lost(err))
	})})
}

func (d stepDir) Failing(id undolog.StepID) { d.tell(&interceptor.Failing{ID: id}) }

func (d stepDir) Abort(id undolog.StepID, done func(error)) {
	d.tell(&interceptor.Abort{ID: id, Reply: messages.OnReply(func(_ *undolog.ApplyResult, err error) { done(err) })})
}
