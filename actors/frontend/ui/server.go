package ui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/ui/page"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/supervision"
)

const (
	maxRequest     = 64 << 10
	maxConnections = 512
	maxRefused     = 64 // connections beyond that which are told so at once; more wait
	maxPages       = 64

	// bodyPause is how long a page may take for each part of a request.
	bodyPause = time.Minute
	// grace is how long what changes something is answered after the server's end. What lasts longer is done, too.
	grace = time.Minute
)

// Session is a client of a live session.
type Session interface {
	api.Service
	// Subscribe calls f for every event until ctx or the session ends, and returns why.
	Subscribe(ctx context.Context, f func(api.Event)) error
}

// Sources is where the server gets what it shows. Methods may be called concurrently.
type Sources interface {
	// Sessions lists the live sessions of this user.
	Sessions() ([]api.SessionInfo, error)
	// Dial connects to one of them.
	Dial(ctx context.Context, s api.SessionInfo) (Session, error)
	// Histories lists the folders that have an undo log.
	Histories() ([]api.Directory, error)
	// Open answers for a folder: its live session, or its log.
	Open(ctx context.Context, d api.Directory) (api.Service, error)
	// Undo, Redo and Mark do so in the folder, and in what belongs to it.
	Undo(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error)
	Redo(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error)
	Mark(ctx context.Context, s api.Service, d api.Directory, r api.MarkRequest) ([]undolog.Mark, error)
	// Decisions returns the newest lines of a folder's audit log, newest first.
	Decisions(d api.Directory, most int) ([]json.RawMessage, error)
	// Report returns what a command of the program says as JSON: "doctor", "config", "clients" or
	// "machine", for a folder where that matters (else empty).
	Report(ctx context.Context, what, folder string) (json.RawMessage, error)
	// Integrate previews or changes a client's files. Its errors are [ErrStale], [Refused] and others.
	Integrate(ctx context.Context, i Integration) (Integrated, error)
	// Text returns a level's configuration file as 'sandbox config text' does, and PutText previews or
	// changes it as 'sandbox config write' does. Their errors are as Integrate's.
	Text(ctx context.Context, level, folder string) (json.RawMessage, error)
	PutText(ctx context.Context, t TextChange) (json.RawMessage, error)
	// BuildImage makes the image that virtual machines boot, and returns what it is. It calls said with each line
	// that tells of its progress. When ctx ends, what was begun is given up.
	BuildImage(ctx context.Context, b ImageBuild, said func(line string)) (json.RawMessage, error)
}

// Options make a [Server].
type Options struct {
	Sources Sources
	Version string
	User    string
	Clock   supervision.Clock // nil: the real one
	Logger  *slog.Logger      // nil: none
}

// Server is the page's server.
type Server struct {
	o        Options
	token    string
	hub      *hub
	mux      *http.ServeMux
	patterns []string // of mux

	build builder
	rest  rest

	connections atomic.Int64
	looking     context.Context // of what changes nothing
	look        context.CancelFunc

	mu     sync.Mutex
	hosts  []string // what a Host header may be
	origin []string
	slots  map[string]chan struct{} // see [Server.slot]

	opened sync.Map // release, by the *http.Request that has one
}

// New makes a server. Serve it with [Server.Serve].
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = supervision.RealClock{}
	}
	s := &Server{o: o, token: secret(), slots: make(map[string]chan struct{})}
	s.hub, s.rest = newHub(o), rest{clock: o.Clock, trim: trim}
	s.looking, s.look = context.WithCancel(context.Background())
	s.routes()
	return s
}

// secret is 256 random bits.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: see its documentation
	return base64.RawURLEncoding.EncodeToString(b)
}

// Address is where the page is, with the token, for a server that listens on l.
func (s *Server) Address(l net.Listener) string {
	return "http://" + l.Addr().String() + "/#token=" + s.token
}

// Listen listens at a port of 127.0.0.1, for [Server.Serve]. Port 0 is a free one; flag is where it comes from, for errors.
func Listen(port int, flag string) (net.Listener, error) {
	return web.Listen(web.Listening{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Flag: flag, Connections: maxConnections + maxRefused})
}

// Serve serves on a listener ([Listen]) until ctx ends, and returns when no request is under way. It closes l. At the end, what changes something is done and answered, and what only looks is told that it is cancelled. It is called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		_ = l.Close()
		return errors.New("ui: only loopback addresses are served")
	}
	_, port, _ := net.SplitHostPort(tcp.String())
	s.mu.Lock()
	s.hosts = []string{tcp.String(), net.JoinHostPort("localhost", port)}
	s.origin = []string{"http://" + tcp.String(), "http://" + net.JoinHostPort("localhost", port)}
	s.mu.Unlock()
	return web.Serve(ctx, l, s, web.Serving{Logger: s.o.Logger, Grace: grace, Ending: s.end, Connected: func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, surplus{}, s.connections.Add(1) > maxConnections)
	}, State: func(_ net.Conn, st http.ConnState) {
		if st == http.StateClosed {
			s.connections.Add(-1)
		}
	}})
}

// end ends what nobody waits for.
func (s *Server) end(context.Context) {
	s.look()
	s.build.end()
	s.hub.close()
}

// surplus is the key under which a connection's context tells whether there were too many when it came.
type surplus struct{}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if over, _ := r.Context().Value(surplus{}).(bool); over {
		h.Set("Connection", "close")
		fail(w, &problem{http.StatusServiceUnavailable, "too_many_connections", fmt.Sprintf("%d connections are open already", maxConnections), "close some pages, and try again"})
		return
	}
	if err := s.allowed(r); err != nil {
		fail(w, err)
		return
	}
	if r.Method != http.MethodPost {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.looking, cancel)()
		r = r.WithContext(ctx)
	}
	r.Body = web.Body(w, r, maxRequest, bodyPause)
	if r.URL.Path != "/api/events" { // which lasts as long as the page is open
		defer s.rest.begin()()
	}
	s.mux.ServeHTTP(w, r)
}

// allowed refuses what does not come from the page.
func (s *Server) allowed(r *http.Request) error {
	s.mu.Lock()
	hosts, origins := s.hosts, s.origin
	s.mu.Unlock()
	if !contains(hosts, r.Host) {
		return &problem{http.StatusForbidden, "wrong_host", "this server answers at its own address only", "open the address that 'sandbox ui' prints"}
	}
	if o := r.Header.Get("Origin"); o != "" && !contains(origins, o) {
		return &problem{http.StatusForbidden, "wrong_origin", "the request comes from another page", ""}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return &problem{http.StatusForbidden, "wrong_origin", "the request comes from another page", ""}
	}
	if r.Method == http.MethodPost {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind != "application/json" || r.Header.Get("X-Sandbox-UI") != "1" {
			return &problem{http.StatusForbidden, "wrong_request", "a request that changes something is JSON with the header X-Sandbox-UI", ""}
		}
	}
	if _, pattern := s.mux.Handler(r); pattern == static {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !same(token, s.token) {
		return &problem{http.StatusUnauthorized, "signed_out", "this page is not signed in", "open the address that 'sandbox ui' prints, with its token"}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, o := range list {
		if o == s {
			return true
		}
	}
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// kinds are the media types of the page's files.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
}

// static is the pattern of the page's files, which are no secret.
const static = "GET /"

// file serves the page's files.
func (s *Server) file(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	kind := kinds[path.Ext(name)]
	b, err := fs.ReadFile(page.Files, name)
	if err != nil || kind == "" {
		return &problem{http.StatusNotFound, "not_found", "there is no such page", ""}
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b)
	return nil
}

// decode reads a request's JSON.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &problem{http.StatusBadRequest, "bad_request", "the request cannot be read: " + err.Error(), ""}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &problem{http.StatusBadRequest, "bad_request", "there is something after the request", ""}
	}
	return nil
}
