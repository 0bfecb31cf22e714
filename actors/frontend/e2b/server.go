package e2b

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/supervision"
)

const (
	// MaxConnections is how many connections are to be served at a time, where more wait.
	MaxConnections = 2048
	// bodyTimeout is how long nothing of a body may come, and writeTimeout how long nothing of an answer may be taken.
	bodyTimeout  = time.Minute
	writeTimeout = 30 * time.Second
	// closeTimeout bounds the orderly end of a session, and drainTimeout that of the answers that are under way then.
	closeTimeout = 20 * time.Second
	drainTimeout = 5 * time.Second
)

// StartRequest asks for the session of a sandbox.
type StartRequest struct {
	// Folder is the sandbox's folder, absolute: the only working folder.
	Folder string
	// Offline: the sandbox has no network, whatever is configured.
	Offline bool
}

// Options make a [Server].
type Options struct {
	// Start starts the session of a sandbox of the REST API. It may be called by several goroutines at once.
	Start func(ctx context.Context, r StartRequest) (api.Live, error)
	// Forget removes all that is kept for the folder of a sandbox which has ended, but not the folder: its log, which is in undoDir, or, if that is empty because the start was cut, where a session would have it. Nil: nothing is kept.
	Forget func(ctx context.Context, folder, undoDir string) error
	// Root is where sandboxes, snapshots and templates are. It is made if it is not there.
	Root string
	// Templates are folders that sandboxes are copies of, by name, beside those below the root.
	Templates map[string]string
	// Domain: the ports of a sandbox are reached at PORT-ID.DOMAIN. It may have a port of its own. Empty: by headers only.
	Domain string
	// Keys are the keys of the REST API; nil: whoever reaches the listener may use it, if no browser asks and the name is one of this machine.
	Keys *web.Keys

	// Live makes this a server of one session, without the REST API. It is closed at the end.
	Live api.Live
	// Token is what clients of that session have to send; empty: the first POST /init gives it, and until then nothing else is answered if Remote.
	Token string
	// Remote says that others than this machine reach the listener.
	Remote bool
	// Kept is a directory of ours, which nobody inside can read: the variables that POST /init gives are in it for the next server of that session's folder. Empty: they are lost with this one.
	Kept string

	// Environ are the variables of commands; HOME is set here.
	Environ []string
	Version string
	Clock   supervision.Clock // nil: the real one
	Logger  *slog.Logger      // nil: none
}

// Server serves the API. Make it with [New]. Its methods are safe for concurrent use.
type Server struct {
	o     Options
	rest  *http.ServeMux
	inner *http.ServeMux   // of a sandbox
	pod   *place           // with [Options.Live]
	lock  *hostfs.FileLock // of the root; nil: there is none

	clients  *frontend.Clients
	draining atomic.Bool
	grace    time.Duration // drainTimeout

	mu        sync.RWMutex
	sandboxes map[string]*sandbox
	making    int        // how many more there will be
	copying   sync.Mutex // one copy of a folder at a time: they share the disk
}

// New makes a server. With a root it takes up the sandboxes that are there, as paused ones; the error says so if another server has it.
func New(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = supervision.RealClock{}
	}
	s := &Server{o: o, grace: drainTimeout, clients: frontend.NewClients(frontendName), sandboxes: map[string]*sandbox{}}
	s.rest, s.inner = s.routesREST(), s.routesInner()
	if o.Live != nil {
		p, err := s.newPlace(o.Live, nil)
		if err != nil {
			return nil, err
		}
		p.token, p.open = o.Token, o.Token == "" && !o.Remote
		maps.Copy(p.added, s.recall(o.Token))
		s.pod = p
		return s, nil
	}
	if err := s.takeUp(); err != nil {
		return nil, err
	}
	return s, nil
}

// Serve serves on a listener ([web.Listen]) until ctx ends. Then it closes all sessions, which ends their commands and closes their steps, and l, and returns when no request is under way: the root is ours until then. It is called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.unlock()
	return web.Serve(ctx, l, s, web.Serving{Logger: s.o.Logger, Grace: s.grace, Ending: s.drain, Connected: s.connected, State: s.connection})
}

// drain closes all sessions: no new one begins. The root is still ours: requests that are under way may remove what is in it.
func (s *Server) drain(ctx context.Context) {
	s.draining.Store(true)
	var all sync.WaitGroup
	if s.pod != nil {
		all.Go(func() { s.closeLive(ctx, s.pod.live) })
	}
	for _, sb := range s.list() {
		all.Go(func() { sb.rest(ctx) })
	}
	all.Wait()
}

// closeLive ends a session.
func (s *Server) closeLive(ctx context.Context, live api.Live) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := live.Close(ctx); err != nil {
		s.o.Logger.Warn("closing a session", "component", "e2b", "session", live.ID(), "err", err)
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := s.route(w, r); err != nil {
		answerError(w, err)
	}
}

// route finds out who answers.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	a, err := wire.AddressOf(r, s.o.Domain)
	if err != nil {
		return err
	}
	if s.pod != nil {
		return s.routePod(w, r, a)
	}
	if a.ID == "" && r.URL.Path == "/files" && r.URL.Query().Has("signature") {
		sb, err := s.signed(r)
		if err != nil {
			return err
		}
		return s.within(w, r, sb, wire.EnvdPort)
	}
	if a.ID == "" {
		if err := s.admitted(r); err != nil {
			return err
		}
		r.Body = s.bounded(w, r, maxMessage)
		s.rest.ServeHTTP(w, r)
		return nil
	}
	sb := s.sandbox(a.ID)
	if sb == nil {
		return wire.Fail(wire.StatusGone, "the sandbox %s was not found", a.ID)
	}
	return s.within(w, r, sb, a.Port)
}

// routePod is route where there is one sandbox.
func (s *Server) routePod(w http.ResponseWriter, r *http.Request, a wire.Address) error {
	if a.ID != "" && a.Port != wire.EnvdPort {
		if err := s.pod.admit(r); err != nil {
			return err
		}
		return s.forward(w, r, s.pod.live, a.Port)
	}
	s.serveInner(w, r, s.pod)
	return nil
}

// within answers for a sandbox.
func (s *Server) within(w http.ResponseWriter, r *http.Request, sb *sandbox, port uint16) error {
	p, err := sb.running(r.Context())
	if err != nil {
		return err
	}
	if port != wire.EnvdPort {
		if err := sb.traffic(r); err != nil {
			return err
		}
		return s.forward(w, r, p.live, port)
	}
	s.serveInner(w, r, p)
	return nil
}

// serveInner answers what envd is asked.
func (s *Server) serveInner(w http.ResponseWriter, r *http.Request, p *place) {
	w.Header().Set("Cache-Control", "no-store")
	s.inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)))
}

// admitted tells whether a request may use the REST API.
func (s *Server) admitted(r *http.Request) error {
	if s.o.Keys != nil {
		if r.URL.Path == "/health" || r.URL.Path == "/ready" {
			return nil
		}
		if _, ok := s.o.Keys.Find(r.Header.Get("X-Api-Key")); !ok {
			return wire.Fail(http.StatusUnauthorized, "the API key (X-API-Key) is missing, or none of this server's")
		}
		return nil
	}
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return wire.Fail(http.StatusForbidden, "a browser may not ask this server: it was started without --keys")
	}
	if !web.NamesThisMachine(r.Host) {
		return wire.Fail(http.StatusForbidden, "this server was started without --keys, and answers to names of this machine only")
	}
	return nil
}

// bounded is the body of a request: at most so many bytes, of which some have to come all the time.
func (s *Server) bounded(w http.ResponseWriter, r *http.Request, most int64) *body {
	b := &body{ReadCloser: web.Body(w, r, most, bodyTimeout)}
	if c := frontend.ClientOf(r); c != nil {
		b.read = &c.In
	}
	return b
}

// body is the body of a request that must not stand still.
type body struct {
	io.ReadCloser
	read *atomic.Int64
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read != nil {
		b.read.Add(int64(n))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = wire.Fail(http.StatusRequestTimeout, "nothing of the request has come for %v", bodyTimeout)
	}
	return n, err
}
