package stdio

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// decider is our name among those who decide.
const decider = "stdio"

// session is the session that the client has started.
type session struct {
	s    *Server
	live api.Live
	// ctx ends when nothing of the session is sent any more.
	ctx     context.Context
	cancel  context.CancelFunc
	conn    *frontend.Connection // our actor in the session
	folders frontend.Folders
	detach  func() // as a decider, and from events
	ended   sync.Once
	over    chan struct{} // closed when watch has returned
	told    sync.Once     // OnSession, that it is over
	from    string        // what another frontend is called that asks through us; empty: nobody does

	mu   sync.Mutex // runs
	runs map[string]*run
}

// frontend is who asks, for events, logs and the audit.
func (sess *session) frontend() string { return cmp.Or(sess.from, decider) }

// NoticeNoEffect is the code of a [Notice] about a setting that makes no
// difference where the session runs.
const NoticeNoEffect = "no_effect"

// Notice is something that a client did not get and that is no error. It becomes
// an event.warning.
type Notice struct{ Code, Message, Field string }

// startSession starts the session.
func startSession(ctx context.Context, rq *request, p *StartRequest) (SessionInfo, error) {
	s := rq.s
	if err := s.checkStart(p); err != nil {
		return SessionInfo{}, err
	}
	s.mu.Lock()
	exists := s.session != nil
	s.starting = !exists
	s.mu.Unlock()
	if exists {
		return SessionInfo{}, &Error{Code: SessionExists, Message: "there is a session already; stop it first: one client has one session"}
	}
	var notes []Notice
	live, err := s.o.Start(ctx, *p, func(n Notice) { notes = append(notes, n) })
	if err == nil {
		var info SessionInfo
		if info, err = s.adopt(ctx, live); err == nil {
			for _, n := range notes {
				_ = s.emit(ctx, eventClass, EventWarning, Warning{Code: n.Code, Message: n.Message, Field: n.Field, At: s.clock.Now()})
			}
			return info, nil
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		err = errors.Join(err, live.Close(closing))
	}
	s.mu.Lock()
	s.starting = false
	s.mu.Unlock()
	var version *undolog.VersionError
	if errors.As(err, &version) {
		s.mu.Lock()
		s.mismatch = version.Dir
		s.mu.Unlock()
		_ = s.emit(ctx, eventClass, EventUndoVersionMismatch, UndoVersionMismatchEvent{
			Directory: version.WorkDir, UndoDir: version.Dir, FoundVersion: version.Found, ExpectedVersion: version.Want,
			Message: "the undo log has another format and its history cannot be used; send undo.discard to give it up, then session.start again, or session.start with another undo_dir for the folder to keep it",
			At:      s.clock.Now(),
		})
	}
	return SessionInfo{}, err
}

func (s *Server) checkStart(p *StartRequest) error {
	if err := checkVersion(p.ProtocolVersion); err != nil {
		return err
	}
	if len(p.WorkingDirectories) == 0 && !s.o.DefaultDirectories {
		return fieldError(MissingField, "working_directories", "name at least one")
	}
	if len(p.WorkingDirectories) > 8 {
		return fieldError(InvalidField, "working_directories", "at most 8, not %d", len(p.WorkingDirectories))
	}
	labels := map[string]bool{}
	for i, d := range p.WorkingDirectories {
		name := "working_directories[" + strconv.Itoa(i) + "]"
		if d.Path == "" {
			return fieldError(InvalidField, name+".path", "is empty")
		}
		if err := oneOf(name+".access", d.Access, "read_write", "read_only"); err != nil {
			return err
		}
		if d.Label != "" && labels[d.Label] {
			return fieldError(InvalidField, name+".label", "another directory has the label %q", d.Label)
		}
		labels[d.Label] = true
	}
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"network_policy", p.NetworkPolicy, []string{"open", "ask", "allowlist", "disabled", "pod", "pod-ask"}},
		{"vm_mode", p.VMMode, []string{"persistent", "ephemeral"}},
		{"isolation", p.Isolation, []string{"auto", "vm", "jail", "landlock", "none"}},
		{"barrier_policy", p.BarrierPolicy, []string{"barrier", "warn", "lock"}},
		{"symlink_policy", p.SymlinkPolicy, []string{"read-write", "read-only", "ignore"}},
		{"durability", p.Durability, []string{"process", "power"}},
	} {
		if err := oneOf(f.name, f.value, f.allowed...); err != nil {
			return err
		}
	}
	if p.UndoLimits != nil {
		if err := p.UndoLimits.check("undo_limits."); err != nil {
			return err
		}
	}
	if p.Safeguards != nil {
		return p.Safeguards.check("safeguards.")
	}
	return nil
}

// oneOf accepts the empty value: it means the default.
func oneOf(field, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a || value == "" {
			return nil
		}
	}
	list := ""
	for i, a := range allowed {
		if i > 0 {
			list += ", "
		}
		list += a
	}
	return fieldError(InvalidField, field, "%q is not one of %s", frontend.Short([]byte(value)), list)
}

// adopt makes live the session.
func (s *Server) adopt(ctx context.Context, live api.Live) (SessionInfo, error) {
	st, err := live.Status(ctx)
	if err != nil {
		return SessionInfo{}, err
	}
	info := SessionInfo{SessionID: live.ID(), ProtocolVersion: Version, Isolation: st.Isolation}
	sess := &session{s: s, live: live, folders: frontend.FoldersOf(st), runs: map[string]*run{}, over: make(chan struct{})}
	sess.ctx, sess.cancel = context.WithCancel(s.ctx)
	for _, d := range st.Directories {
		info.WorkingDirectories = append(info.WorkingDirectories, directoryInfo(d))
	}
	if sess.conn, err = frontend.Connect(ctx, live, frontend.ConnectionOptions{Name: decider, Figures: s.figures, Crashed: s.crashed}); err != nil {
		sess.cancel()
		return SessionInfo{}, err
	}
	s.mu.Lock()
	s.session, s.starting, s.mismatch = sess, false, ""
	s.mu.Unlock()
	detach, unsubscribe := live.AttachDecider(decider), live.Subscribe(sess.event)
	sess.detach = func() { detach(); unsubscribe(); sess.conn.Detach() }
	s.tell(live)
	go sess.watch()
	s.log.Info("session started", "session", live.ID())
	return info, nil
}

// figures are what our actor shows of us.
func (s *Server) figures() api.Figures {
	s.mu.Lock()
	n := len(s.inflight)
	s.mu.Unlock()
	return api.Figures{InFlight: n, In: s.lines.Read(), Out: s.out.Sent()}
}

// crashed ends the conversation, because our actor has crashed.
func (s *Server) crashed(err error) {
	select {
	case s.gone <- err:
	default: // it ends already
	}
}

func (s *Server) tell(live api.Live) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.o.OnSession != nil {
		s.o.OnSession(live)
	}
}

// watch notices that the session ends by itself.
func (sess *session) watch() {
	defer close(sess.over)
	select {
	case <-sess.live.Done():
		sess.end()
	case <-sess.ctx.Done():
	}
}

// end forgets the session.
func (sess *session) end() {
	sess.ended.Do(func() {
		s := sess.s
		s.mu.Lock()
		s.session = nil
		s.mu.Unlock()
		sess.tellOver()
		_ = s.emit(sess.ctx, eventClass, EventSessionState, SessionState{State: "ended", SessionID: sess.live.ID(), At: s.clock.Now()})
		sess.detach()
		sess.cancel()
		s.log.Info("session ended", "session", sess.live.ID())
	})
}

func (sess *session) tellOver() { sess.told.Do(func() { sess.s.tell(nil) }) }

// stopSession ends the session, its commands first.
func stopSession(ctx context.Context, rq *request, _ *api.None) (StopResult, error) {
	sess := rq.s.current()
	if sess == nil {
		return StopResult{}, &Error{Code: NoSession, Message: "session.stop: there is no session"}
	}
	return StopResult{sess.live.ID()}, rq.s.closeSession(ctx, sess)
}

// closeSession cancels commands and closes. What the session still has to say
// is sent as long as the client reads.
func (s *Server) closeSession(ctx context.Context, sess *session) error {
	sess.mu.Lock()
	for _, r := range sess.runs {
		r.cancel(errStopping)
	}
	sess.mu.Unlock()
	sess.tellOver()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	// A client that does not read must not keep the session from its end, which
	// waits for the last event.
	stop := s.clock.AfterFunc(goodbye, sess.cancel)
	defer stop()
	err := sess.live.Close(ctx)
	sess.end()
	<-sess.over
	return err
}

// resetSession starts the runtime afresh.
func resetSession(ctx context.Context, sess *session, _ *api.None) (StopResult, error) {
	return StopResult{sess.live.ID()}, sess.live.Reset(context.WithoutCancel(ctx))
}

// path is the host path of a folder, for the answer.
func (sess *session) path(d string) (string, error) {
	path, err := sess.folders.Path(d)
	if err != nil {
		return "", fieldError(UnknownDirectory, "directory", "the session has no directory %q", frontend.Short([]byte(d)))
	}
	return path, nil
}

// seconds is a duration of the protocol.
func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// maxSeconds is the longest duration that the protocol takes.
const maxSeconds = 30 * 24 * 3600

func checkSeconds(field string, f float64) error {
	if !(f >= 0 && f <= maxSeconds) {
		return fieldError(InvalidField, field, "must be between 0 and %d", maxSeconds)
	}
	return nil
}
