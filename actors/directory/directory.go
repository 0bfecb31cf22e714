package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/actors/watcher"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/fuse"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/ninep"
	"github.com/codeagent/sandbox/fsbridge/readonly"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/logctx"
	"github.com/codeagent/sandbox/supervision"
)

// Env is what the session gives each of its folders. All of it is set.
type Env struct {
	Config  api.Config
	Session string // its id
	Clock   supervision.Clock
	Logger  *slog.Logger
	Emit    func(api.Event)
	// Node is the place of one of the folder's actors in the tree.
	Node func(actor string) *supervision.Node
	// Interceptor, Safeguard and Steps reach these actors.
	Interceptor      messages.Ref
	Safeguard, Steps messages.Tell
	// Safeguards are the settings that hold now.
	Safeguards func() api.Safeguards
	// Protection is what the folder does not let be written to; its zero value is nothing.
	Protection Protection
	// Mediation serves the folder if the runtime shows it to its guest by itself.
	Mediation *Mediation
	// Outputs are the files that the commands' output goes to.
	Outputs *Outputs
	// Allowance is what the session's folders may take more; nil: whatever is there.
	Allowance *fsbridge.Allowance
}

// Directory is one working folder of a session. What is exported is set by [Open],
// [Directory.Intercept] and [Directory.WatchFor], before the actors run, and does
// not change. Methods are safe for concurrent use from then on.
type Directory struct {
	Index  int
	Config api.Directory
	Root   *hostfs.Root
	// Log, Hooks and Watch are nil for a read-only folder and, with Mismatch
	// set, for one whose log has another format.
	Log      *undolog.Log
	Hooks    *interceptor.Hooks
	Watch    *watcher.Watcher
	Mismatch *undolog.VersionError

	env     Env
	counted *fsbridge.AllowanceFolder // nil: there is no limit
	dirs    fsbridge.DirLocks         // of all that changes names in the folder
	meta    *posixLog                 // Log with the metadata that the file system cannot hold; or nil
	lock    *readonly.Mount           // over the folder, by the policy "lock"; or nil

	warnings Recent[undolog.Warning]

	mu      sync.Mutex      // what follows
	aborted bool            // the session has not started
	bridge  fsbridge.Bridge // nil until a transport is there
	files   *files.Folder   // nil until it is known what to hide
	wrote   time.Time       // when somebody inside was last seen that need not ask to write
}

// New makes a folder that is not open. d is complete ([Validate]).
func New(index int, d api.Directory, env Env) *Directory {
	return &Directory{Index: index, Config: d, env: env}
}

// component is the logger of a part.
func (d *Directory) component(name string) *slog.Logger {
	return d.env.Logger.With(logctx.KeyComponent, name)
}

// Open opens the folder and its log. Without a runtime, a log of another format is no
// error but a Mismatch.
func (d *Directory) Open(ctx context.Context) (err error) {
	if _, err := readonly.Uncover(readonly.Dir, d.Config.Path); err != nil {
		return fmt.Errorf("%w: %w", api.ErrDirectory, err)
	}
	if d.Root, err = hostfs.OpenRoot(d.Config.Path); err != nil {
		return fmt.Errorf("%w: %s: %w", api.ErrDirectory, d.Config.Path, err)
	}
	if d.Config.ReadOnly {
		return nil
	}
	cfg := d.env.Config
	if err := d.takeAlong(ctx); err != nil {
		return err
	}
	d.Log, err = undolog.Open(ctx, undolog.Options{
		Dir: d.Config.UndoDir, Root: d.Root, Settings: cfg.Undo.Settings, Now: d.env.Clock.Now, Logger: d.component("undo").With("directory", d.Config.Path),
		Owner: undolog.Owner{PID: os.Getpid(), Session: d.env.Session, WorkDir: d.Config.Path},
		Warn:  d.Warn,
		Looks: cfg.Runtime == nil,
	})
	if errors.As(err, &d.Mismatch) {
		d.Mismatch.WorkDir = d.Config.Path
	}
	if d.Mismatch != nil && cfg.Runtime == nil {
		d.env.Emit(api.Event{Type: api.EventVersionMismatch, Directory: d.Config.Path, Message: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	if err := noteLog(undolog.FolderKey(d.Config.Path), d.Config.UndoDir); err != nil {
		d.component("undo").Warn("place of the log not noted; it is not found again when the folder is moved, and not hidden in other folders' sessions", "directory", d.Config.Path, "err", err)
	}
	if cfg.Runtime != nil {
		d.counted = d.env.Allowance.Add(d.Root, d.Config.Path, d.Config.UndoDir)
	}
	return d.openPosix()
}

// Lock keeps everybody outside from writing to the folder by its path, if the policy says so, until [Directory.Close]. It is called when the guest has its own mount of the folder.
func (d *Directory) Lock() (err error) {
	if d.env.Config.Barriers != undolog.PolicyLock || d.env.Config.Runtime == nil || d.Config.ReadOnly {
		return nil
	}
	if d.lock, err = readonly.Cover(readonly.Dir, d.Config.Path); err != nil {
		return fmt.Errorf("barrier policy %q: %w; use %q or %q", undolog.PolicyLock, err, undolog.PolicyBarrier, undolog.PolicyWarn)
	}
	return nil
}

// Warn remembers and announces a warning.
func (d *Directory) Warn(u undolog.Warning) {
	d.warnings.Keep(u)
	t := api.EventWarning
	if u.Code == undolog.WarnExternal {
		t = api.EventExternalModification
	}
	d.env.Emit(api.Event{Type: t, Directory: d.Config.Path, Message: u.Message, Paths: u.Paths, Warning: &u})
}

// theBridge returns the bridge, or nil.
func (d *Directory) theBridge() fsbridge.Bridge {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bridge
}

// Refused returns how often something hidden in the folder was asked for over the bridge, and refused, by absolute path.
func (d *Directory) Refused() map[string]uint64 {
	refused := make(map[string]uint64)
	if b, ok := d.theBridge().(fsbridge.Concealer); ok {
		for rel, n := range b.Refused() {
			refused[filepath.Join(d.Config.Path, rel)] = n
		}
	}
	return refused
}

// Intercept makes the hooks of a writable folder.
func (d *Directory) Intercept() {
	cfg, path := d.env.Config, d.Config.Path
	var log interceptor.Log = d.Log
	if d.meta != nil {
		log = d.meta
	}
	d.Hooks = interceptor.New(interceptor.Options{
		Directory: path, Log: log, Looks: cfg.Runtime == nil, Clock: d.env.Clock, Logger: d.env.Logger,
		Safeguards:  d.env.Safeguards(),
		AmbientIdle: cfg.Timing.AmbientIdle, ReplyDeadline: cfg.Timing.ReplyDeadline,
		Node: d.env.Node("interceptor"), Safeguard: d.env.Safeguard, Owner: d.env.Steps,
		Entry: d.env.Protection.Entry, Carries: d.env.Protection.Carries, Targets: d.env.Protection.Targets, Writes: d.writes, Remember: d.remember,
		Events: interceptor.Events{
			Refused: d.refused,
			Recovered: func(r *undolog.Recovery) {
				d.env.Emit(api.Event{Type: api.EventRecovery, Directory: path, Step: r.StepID, Recovery: r, Message: recoveryText(r)})
			},
			AmbientClosed: func(e *undolog.Entry) {
				d.env.Emit(api.Event{
					Type: api.EventStepCompleted, Directory: path, Step: e.StepID, Entry: e,
					Message: e.Status, Outcome: e.Status, AffectedCount: e.AffectedCount, Last: true,
				})
			},
			Failed: func(msg string) { d.env.Emit(api.Event{Type: api.EventError, Directory: path, Message: msg}) },
		},
	})
	d.Hooks.SetTell(d.env.Interceptor.Tell)
	d.env.Node("interceptor").SetLive(func(n *supervision.Snapshot) {
		if n.Facts == nil {
			n.Facts = map[string]string{}
		}
		n.Facts["captures"] = strconv.FormatInt(d.Hooks.Captures(), 10)
	})
}

func recoveryText(r *undolog.Recovery) string {
	switch {
	case r.CompletedRollback && len(r.Edited) > 0:
		return fmt.Sprintf("an interrupted rollback was finished: %d paths restored; %d that were changed since stay as they are", r.Restored, len(r.Edited))
	case r.CompletedRollback:
		return fmt.Sprintf("an interrupted rollback was finished: %d paths restored", r.Restored)
	case r.Unprotected:
		return fmt.Sprintf("step %d was interrupted; it had outgrown its limit and was kept as it is", r.StepID)
	case r.Kept && len(r.Edited) > 0:
		return fmt.Sprintf("step %d was interrupted and is in the history as it is, because %d path(s) of it were changed since; an undo takes it back", r.StepID, len(r.Edited))
	case r.Kept:
		return fmt.Sprintf("step %d was interrupted and is in the history as it is; an undo takes it back", r.StepID)
	}
	return fmt.Sprintf("step %d was interrupted and has been rolled back: %d paths restored", r.StepID, r.Restored)
}

// WatchFor makes what announces edits from outside. If it cannot, a warning says so
// and Watch is nil.
func (d *Directory) WatchFor() {
	if err := d.watchFor(); err != nil {
		d.env.Logger.Warn("edits from outside are not announced", "component", "file_watcher", "err", err)
		d.Watch = nil
		d.Warn(undolog.Warning{Code: api.WarnWatch, Message: err.Error()})
	}
}

func (d *Directory) watchFor() (err error) {
	d.Watch, err = watcher.New(watcher.Options{
		Root: d.Config.Path, Clock: d.env.Clock, Logger: d.env.Logger, Node: d.env.Node("watcher"),
		Check: func(paths []string, done func(undolog.Outside, error)) {
			if d.Log == nil { // nobody inside can write
				done(undolog.Outside{Others: paths}, nil)
				return
			}
			d.env.Interceptor.Tell(&interceptor.External{Paths: paths, Reply: messages.OnReply(done)})
		},
		Bridge: d.theBridge,
		Ours:   d.lastOurs,
		External: func(paths []string, barriers []undolog.Barrier) {
			if paths = d.env.Outputs.Others(d.Config.Path, paths); len(paths) == 0 {
				return
			}
			msg := fmt.Sprintf("%d path(s) changed outside the sandbox", len(paths))
			if len(barriers) > 0 {
				msg += "; an undo will not overwrite them unless it is forced"
			}
			d.env.Emit(api.Event{Type: api.EventExternalModification, Directory: d.Config.Path, Paths: paths, Message: msg})
		},
		Overflow: func(msg string) { d.Warn(undolog.Warning{Code: api.WarnWatch, Message: msg}) },
	})
	return err
}

// Guarded is who is asked before anything in the folder is changed: the hooks, within what the folder may take.
func (d *Directory) Guarded() fsbridge.Interceptor { return d.counted.Guard(d.Hooks) }

// lastOurs is when something inside may last have changed the folder.
func (d *Directory) lastOurs() time.Time {
	if d.Hooks == nil {
		return time.Time{}
	}
	b, grants := d.theBridge().(fsbridge.Granter)
	writers := grants && len(b.Granted()) > 0
	d.mu.Lock()
	defer d.mu.Unlock()
	if writers { // they need not ask
		d.wrote = d.env.Clock.Now()
	}
	if last := d.Hooks.LastMutation(); last.After(d.wrote) {
		return last
	}
	return d.wrote
}

// Share is the folder as the runtime sees it.
func (d *Directory) Share() hypervisor.Share {
	return hypervisor.Share{HostPath: d.Config.Path, GuestPath: hypervisor.GuestPath(d.Config.Path), ReadOnly: d.Config.ReadOnly, Serve: d.serve}
}

// serve starts the bridge on the connection that the runtime made.
func (d *Directory) serve(t hypervisor.Transport) error {
	log := d.component("fs_backend").With("directory", d.Config.Path)
	o := vfs.Options{
		Root: d.Root, Dirs: &d.dirs, Hidden: t.Hide, ReadOnly: d.Config.ReadOnly, Logger: log,
		SymlinksReadOnly: d.env.Config.Symlinks == undolog.SymlinkReadOnly,
	}
	if d.Hooks != nil {
		o.Hooks = d.Guarded()
	}
	if int(t.UID) != os.Geteuid() || t.Alone {
		o.Owner = &vfs.Owner{UID: t.UID, GID: t.GID, Alone: t.Alone}
	}
	if d.env.Config.PosixMetadata && d.meta != nil {
		o.Posix = d.meta.overlay
	}
	if d.env.Config.Cache == api.CacheNone {
		o.Cache = vfs.CacheNone
	}
	switch {
	case d.Watch == nil:
	case t.Kind == hypervisor.TransportMediated:
		go d.Watch.WatchAll(t.Hide, 0) // no look into a directory reaches us
	default:
		o.OnList, o.OnBusy = d.Watch.Watch, d.Watch.Busy
		go d.Watch.WatchAll(t.Hide, watcher.Share())
		if t.Wake != nil && t.Kind != hypervisor.TransportP9 {
			d.Watch.Prompt()
		}
	}
	b, err := d.serveOn(t, o)
	if err != nil {
		log.Error("backend not started", "backend", backend(t.Kind), "err", err)
		return err
	}
	log.Info("backend started", "backend", backend(t.Kind), "read_only", d.Config.ReadOnly, "cache_none", o.Cache == vfs.CacheNone)
	d.mu.Lock()
	d.bridge = b
	d.mu.Unlock()
	if err := d.readable(t.Hide); err != nil {
		return err
	}
	if d.Hooks != nil {
		pids := t.HostPID
		if v, ok := b.(fsbridge.HostPIDs); ok {
			pids = v.HostPID
		}
		d.Hooks.SetHostPID(pids)
		d.Hooks.SetBridge(b)
	}
	d.env.Node("bridge").SetLive(func(n *supervision.Snapshot) {
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
	case hypervisor.TransportMediated:
		return "mediated"
	}
	return "fuse"
}

// serveOn starts the bridge that speaks a transport's language. It takes over
// the transport's file or stream, also on error.
func (d *Directory) serveOn(t hypervisor.Transport, o vfs.Options) (fsbridge.Bridge, error) {
	switch t.Kind {
	case hypervisor.TransportMediated:
		return d.env.Mediation.add(t, o)
	case hypervisor.TransportFUSE:
		b, err := fuse.ServeFile(t.File, o, t.Wake)
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
		v := virtiofs.Options{Tree: o, Sync: t.Sync, Wake: t.Wake}
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

// Close gives everything back. The guest has ended.
func (d *Directory) Close() error {
	errs := []error{d.lock.TakeOff()}
	d.closeFiles()
	if b := d.theBridge(); b != nil {
		errs = append(errs, b.Close())
		d.component("fs_backend").Info("backend stopped", "directory", d.Config.Path)
	}
	if d.Watch != nil {
		errs = append(errs, d.Watch.Close())
	}
	if d.Log != nil {
		errs = append(errs, d.closeLog())
	}
	if d.meta != nil {
		errs = append(errs, d.meta.store.Close())
	}
	if d.Root != nil {
		errs = append(errs, d.Root.Close())
	}
	return errors.Join(errs...)
}

// Usable returns an error when the folder has no history.
func (d *Directory) Usable() error {
	switch {
	case d.Mismatch != nil:
		return d.Mismatch
	case d.Log == nil:
		return fmt.Errorf("%w: %s", messages.ErrReadOnlyDirectory, d.Config.Path)
	}
	return nil
}

// givenUp tells whether err is the answer of an Interceptor that is not restarted
// any more: its folder is read-only, and the session goes on.
func (d *Directory) givenUp(err error) bool {
	if !errors.Is(err, messages.ErrStopped) || d.Hooks == nil {
		return false
	}
	state, _ := d.Hooks.State()
	return state == "read_only"
}

// lost gives that answer its meaning for frontends.
func (d *Directory) lost(err error) error {
	if !d.givenUp(err) {
		return err
	}
	_, problem := d.Hooks.State()
	return fmt.Errorf("%w: %s", messages.ErrReadOnlyDirectory, problem)
}

// Warnings are those that are remembered, newest last.
func (d *Directory) Warnings() []undolog.Warning { return d.warnings.All() }

// Unserve closes the step that nobody can write to any more, since the guest has
// ended, and then the bridge.
func (d *Directory) Unserve(ctx context.Context) error {
	var err error
	if d.Hooks != nil {
		_, err = messages.Request(ctx, d.env.Interceptor, func(r *messages.Reply[struct{}]) any { return &interceptor.Flush{Reply: r} })
		if d.givenUp(err) {
			err = nil
		}
		d.Hooks.SetBridge(nil)
	}
	d.mu.Lock()
	b := d.bridge
	d.bridge = nil
	d.mu.Unlock()
	if b != nil {
		err = errors.Join(err, b.Close())
	}
	return err
}
