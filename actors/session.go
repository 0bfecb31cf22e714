package actors

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/command"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/actors/machine"
	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
	"github.com/codeagent/sandbox/supervision"
)

// Session is a running session in this process, or with Config.Runtime nil the
// history of some working folders. It implements
// [api.Live].
type Session struct {
	cfg         api.Config
	id          string
	started     time.Time
	clock       supervision.Clock
	bus         *session.Bus
	board       *session.Board
	tree        *supervision.Tree
	system      *actor.ActorSystem
	root        *actor.PID
	slot        *machine.Slot
	dirs        []*directory.Directory
	sgIDs       int
	stopped     chan struct{}
	active      chan struct{} // closed when commands can run
	steps       step.Steps
	services    *services
	owned       command.Commands // see [api.Commander]
	table       command.Table
	owners      *ownedSet
	inside      *insider
	holder      step.Holder
	net         network
	book        *approval.Book
	answers     answers
	unconverted error      // of older answers
	published   *publisher // nil: nothing is
	mediation   *directory.Mediation
	outputs     *directory.Outputs
	allowance   *fsbridge.Allowance // of the folders; nil: there is no limit
	count       atomic.Uint64       // of connections
	commands    atomic.Int64        // numbers them, for the guest
	questions   atomic.Uint64       // numbers the session's own
	nobody      absence
	viewed      viewed                      // see [api.Viewer]
	warnings    directory.Recent[api.Event] // of its steps: see warn
	askers      atomic.Int32                // commands whose user is asked: see [api.RunRequest].Asks

	mu       sync.Mutex // server, closing
	server   *control.Server
	idle     *control.Idle
	requests *control.SessionServer
	closing  bool
	closed   chan struct{}
	closeE   error
}

var _ api.Live = (*Session)(nil)

// Start opens the working folders' logs, recovers them, starts the runtime and
// returns when commands can run. ctx bounds the start only. Errors are
// *undolog.LockedError and *undolog.VersionError from the log, [api.ErrDirectory],
// and those of the runtime; nothing is left behind then. Close the Session to
// stop it.
func Start(ctx context.Context, cfg api.Config) (*Session, error) {
	if p, ok := cfg.Runtime.(hypervisor.Preparer); ok {
		p.Prepare() // while the actors and the logs are made
	}
	s, err := newSession(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		for _, w := range s.dirs {
			w.Refuse()
		}
		return nil, errors.Join(err, s.Close(closing))
	}
	return s, nil
}

// Offline opens the working folders' logs without a runtime: history, undo,
// redo and the like. The logs are locked until Close. A folder whose log has
// another format is there too; all that can be done with it is to discard it.
func Offline(ctx context.Context, cfg api.Config) (api.Service, error) {
	cfg.Runtime, cfg.RuntimeDir = nil, ""
	return Start(ctx, cfg)
}

func newSession(cfg api.Config) (*Session, error) {
	if n := len(cfg.Directories); n < 1 || n > messages.MaxDirectories {
		return nil, fmt.Errorf("%w: a session has 1 to %d working folders, not %d", api.ErrDirectory, messages.MaxDirectories, n)
	}
	if err := lockable(cfg); err != nil {
		return nil, err
	}
	setDefault(&cfg.Timing.QuiescenceIdle, messages.QuietTime)
	setDefault(&cfg.Timing.QuiescenceMax, messages.QuietMax)
	setDefault(&cfg.Timing.AmbientIdle, messages.AmbientIdle)
	setDefault(&cfg.Timing.ReplyDeadline, 5*time.Second)
	setDefault(&cfg.Timing.ServiceAfter, messages.ServiceAfter)
	s := &Session{cfg: cfg, id: cfg.SessionID, clock: supervision.RealClock{}, slot: &machine.Slot{}, tree: supervision.NewTree(),
		stopped: make(chan struct{}), active: make(chan struct{}), closed: make(chan struct{})}
	if cfg.Clock != nil {
		s.clock = cfg.Clock
	}
	s.cfg.Logger = s.correlated(cfg.Logger)
	s.mediation = directory.NewMediation(s.cfg.Logger, s.worksHere)
	s.outputs = directory.NewOutputs(s.clock, cfg.Readers)
	s.services = s.newServices()
	s.owners = newOwnedSet()
	s.allowance = s.newAllowance()
	s.inside = &insider{s: s}
	guards, err := session.CheckSafeguards(cfg.Safeguards)
	if err != nil {
		return nil, err
	}
	s.board = session.NewBoard(guards)
	if s.id == "" {
		var b [6]byte
		if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
			return nil, err
		}
		s.id = hex.EncodeToString(b[:])
	}
	s.started, s.bus = s.clock.Now(), session.NewBus(s.clock)
	s.newBook()
	if err := s.connectable(); err != nil {
		return nil, err
	}
	running := control.Sessions(cfg.RuntimeDir)
	for i, d := range cfg.Directories {
		d, err := directory.Validate(d, running)
		if err != nil {
			return nil, err
		}
		for _, o := range s.dirs {
			if d.Label != "" && d.Label == o.Config.Label {
				return nil, fmt.Errorf("%w: %s and %s are both labelled %q", api.ErrDirectory, d.Path, o.Config.Path, d.Label)
			}
			if directory.Overlap(d.Path, o.Config.Path) || lexical.Within(o.Config.UndoDir, d.Path) || lexical.Within(d.UndoDir, o.Config.Path) {
				return nil, fmt.Errorf("%w: %s and %s overlap; name only one of them", api.ErrDirectory, d.Path, o.Config.Path)
			}
		}
		s.dirs = append(s.dirs, directory.New(i, d, s.env(i)))
	}
	return s, nil
}

// env is what the session gives a folder.
func (s *Session) env(index int) directory.Env {
	return directory.Env{
		Config: s.cfg, Session: s.id, Clock: s.clock, Logger: s.cfg.Logger, Emit: s.bus.Emit, Safeguards: s.safeguards,
		Node:        func(actor string) *supervision.Node { return s.tree.Node(s.path(folder(index, actor))) },
		Interceptor: messages.Ref{Tell: s.to(folder(index, "interceptor")), Stopped: s.stopped},
		Safeguard:   s.asks(), Steps: s.to("steps"), Mediation: s.mediation, Outputs: s.outputs, Allowance: s.allowance, Protection: s.protection(),
	}
}

// lockable reports a runtime that does not go with the policy [undolog.PolicyLock].
func lockable(cfg api.Config) error {
	if cfg.Barriers != undolog.PolicyLock || cfg.Runtime == nil {
		return nil
	}
	why, lacks := hypervisor.Lacks(cfg.Runtime.Name(), "lock")
	if !lacks {
		return nil
	}
	return fmt.Errorf("barrier policy %q: with --isolation %s, %s; use another isolation, or %q or %q: %w",
		undolog.PolicyLock, cfg.Runtime.Name(), why, undolog.PolicyBarrier, undolog.PolicyWarn, errors.ErrUnsupported)
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

func (s *Session) start(ctx context.Context) error {
	for _, w := range s.dirs {
		if err := w.Open(ctx); err != nil {
			return err
		}
	}
	if err := s.listens(); err != nil { // the guest is told of it
		return err
	}
	if err := s.spawn(ctx); err != nil {
		return err
	}
	if err := s.move(ctx, session.Starting, "start"); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.publish(); err != nil {
		return err
	}
	if s.cfg.Runtime != nil {
		if _, err := ask(ctx, s, "machine", func(r *messages.Reply[struct{}]) any { return &machine.Start{Context: ctx, Reply: r} }); err != nil {
			return err
		}
	}
	for _, w := range s.dirs {
		if err := w.OpenFiles(); err != nil { // nobody to hide anything from, if there is no bridge
			return err
		}
		if err := w.Lock(); err != nil { // after the guest has its own mount of the folder
			return err
		}
	}
	if err := s.move(ctx, session.Active, "started"); err != nil {
		return err
	}
	close(s.active)
	if s.unconverted != nil {
		s.bus.Emit(api.Event{Type: api.EventWarning, Message: s.unconverted.Error()})
	}
	return nil
}

func (s *Session) move(ctx context.Context, to session.State, why string) error {
	_, err := ask(ctx, s, "", func(r *messages.Reply[session.State]) any { return &session.Move{To: to, Reason: why, Reply: r} })
	return err
}

// listen registers the session and opens its control socket.
func (s *Session) listen() error {
	if s.cfg.RuntimeDir == "" {
		return nil
	}
	if err := os.MkdirAll(s.cfg.RuntimeDir, 0o700); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	r := s.registration()
	if err := r.Write(s.cfg.RuntimeDir); err != nil {
		return err
	}
	var idle *control.Idle
	if s.cfg.Idle > 0 && s.cfg.Stop != nil {
		idle = control.NewIdle(s.clock, s.cfg.Idle, s.cfg.Stop)
	}
	requests := control.NewServer(control.SessionOptions{
		Session: s, Stopped: s.stopped, Started: s.active, Settings: s.cfg.Settings, Stop: s.cfg.Stop, Idle: idle,
	})
	server, err := control.Listen(r.Socket, control.Options{
		Handler: requests.Handle, ToWire: control.ToWire, Attach: s.Attach, Busy: idle.Busy, Logger: s.cfg.Logger,
	})
	if err != nil {
		idle.Stop()
		return err
	}
	s.mu.Lock()
	s.server, s.idle, s.requests = server, idle, requests
	s.mu.Unlock()
	s.tree.Node(s.path("frontends/control-socket")).SetLive(func(n *supervision.Snapshot) {
		n.State = "listening"
		n.Facts = map[string]string{"connections": fmt.Sprint(server.Connections())}
	})
	for _, w := range s.dirs {
		if w.Log == nil {
			continue
		}
		o := undolog.Owner{PID: r.PID, Session: r.Session, Socket: r.Socket, WorkDir: w.Config.Path}
		if err := w.Log.SetOwner(o); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) registration() control.Registration {
	r := control.Registration{PID: os.Getpid(), Session: s.id, Socket: s.socket(), ConfigFiles: s.cfg.ConfigFiles}
	for _, w := range s.dirs {
		r.Directories, r.Labels = append(r.Directories, w.Config.Path), append(r.Labels, w.Config.Label)
	}
	return r
}

func (s *Session) socket() string { return control.SocketFile(s.cfg.RuntimeDir, s.id) }

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Close ends commands, closes open steps, stops the runtime and gives the logs
// back. Later calls return what the first did.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	server := s.server
	idle, requests := s.idle, s.requests
	s.mu.Unlock()
	idle.Stop()
	if !first {
		select {
		case <-s.closed:
			return s.closeE
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(s.closed)
	if requests != nil {
		requests.End(ctx)
	}
	s.owners.endSteps(ctx)
	s.closeE = s.shutdown(ctx, server)
	return s.closeE
}

// Attach implements [api.Frontends].
func (s *Session) Attach(ctx context.Context, f api.Frontend) (api.Attachment, error) {
	r := messages.NewReply[api.Attachment]()
	s.to("frontends")(&session.Attach{Frontend: f, Reply: r})
	var err error
	select {
	case res := <-r.C():
		return res.Value, res.Err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.stopped:
		err = messages.ErrStopped
	}
	if !r.Send(nil, err) { // it came at the same moment
		if res := <-r.C(); res.Err == nil {
			res.Value.Detach()
		}
	}
	return nil, err
}

// Dial connects to the control socket of a session in another process. The
// result is a *[control.SessionClient].
func Dial(ctx context.Context, socketPath string) (api.Service, error) {
	return control.DialSession(ctx, socketPath)
}

// Join connects to the session of another process of this user, to have commands
// run in it.
func Join(ctx context.Context, socketPath string) (api.Joined, error) {
	return control.DialJoined(ctx, socketPath)
}

// Asked is a command that a session was asked to run before there was a client.
type Asked = control.Asked

// Adopt is [Join] of a session that was asked to run a command already: see [control.AdoptSession].
func Adopt(a Asked) (api.Joined, error) { return control.AdoptSession(a) }

// Attend says that this process shows a person what sessions ask, until leave is called: see [api.Config.Attended].
func Attend(runtimeDir string) (leave func(), err error) { return control.Attend(runtimeDir) }

// Attended reports whether another process does what [Attend] says.
func Attended(runtimeDir string) bool { return control.Attended(runtimeDir) }

// Registered lists the sessions that are registered in runtimeDir, without asking
// whether they answer.
func Registered(runtimeDir string) []api.SessionInfo { return control.Registered(runtimeDir) }

// Sessions lists the running sessions that are registered in runtimeDir.
func Sessions(runtimeDir string) []api.SessionInfo { return control.Sessions(runtimeDir) }

// ValidateDirectory checks one working folder and completes it; see
// [directory.Validate]. runtimeDir is where running sessions register (empty: nobody
// is asked).
func ValidateDirectory(d api.Directory, runtimeDir string) (api.Directory, error) {
	return directory.Validate(d, control.Sessions(runtimeDir))
}

// DefaultUndoDir returns where the undo log of a working folder lives when nothing
// else is asked for.
func DefaultUndoDir(workdir string) (string, error) { return directory.DefaultUndoDir(workdir) }

// WhyThere says why a folder's log is where it is by default, or would be, and what speaks
// against better places.
func WhyThere(workdir string) (why string, passed []string) {
	p, err := directory.DefaultPlace(workdir)
	if err != nil {
		return "", nil
	}
	return p.Why, p.Passed
}

// LogsIn returns the directory with the logs of this user's folders that a log lies in; empty
// if others' files are there, too.
func LogsIn(log string) string { return directory.LogsIn(log) }

// LogIn returns where the log of a working folder is in dir, which holds one for each folder;
// see [directory.LogIn].
func LogIn(dir, workdir string) (string, error) { return directory.LogIn(dir, workdir) }

// FrontendDir returns where a frontend keeps what belongs to a working folder, and nobody inside may read; see [directory.FrontendDir].
func FrontendDir(workdir string) (string, error) { return directory.FrontendDir(workdir) }

// HasHistory reports whether a folder whose log belongs into undoDir has one.
func HasHistory(path, undoDir string) bool { return directory.HasHistory(path, undoDir) }

// NewHistory puts another folder's log aside that lies where d's belongs; see [directory.NewHistory].
func NewHistory(ctx context.Context, d api.Directory) (aside string, err error) {
	return directory.NewHistory(ctx, d)
}

// FilesOfReaders lists the regular files that other processes of this user have open which have one of the pipes open, too: what [api.Config.Readers] has to find. A process behind Landlock finds none.
func FilesOfReaders(pipes []api.FileID) []api.FileID { return directory.FilesOfReaders(pipes) }

// StateDir is where this program keeps what outlives it.
func StateDir() (string, error) { return directory.StateDir() }

// MachineDir returns where the persistent machine of a session is kept whose first
// working folder is workdir.
func MachineDir(workdir string) (string, error) { return directory.MachineDir(workdir) }
