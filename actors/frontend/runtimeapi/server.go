package runtimeapi

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

const (
	// MaxConnections is how many connections are to be served at a time, where more wait.
	MaxConnections = 512
	// DefaultTimeout is how long a command may run unless [Options] say so.
	DefaultTimeout = 5 * time.Minute
	// bodyTimeout is how long nothing of a body may come.
	bodyTimeout = time.Minute
	// grace is how long requests may go on when the server is to end: the session ends meanwhile, and its commands with it.
	grace = 25 * time.Second
	// stopTimeout bounds the end of a command whose client has gone.
	stopTimeout = 20 * time.Second
)

// frontendName is what we are called in events, logs and the tree of actors.
const frontendName = "runtime"

// Options make a [Server].
type Options struct {
	// Live is the session. It is not closed here.
	Live api.Live
	// Token returns what clients have to send (X-Access-Token); "" as long as there is none. It may be called by several goroutines at once. Nil: there is none.
	Token func() string
	// Open lets in whoever reaches the listener as long as there is no token. At a loopback address that is so anyway.
	Open bool
	// Environ returns the variables of a command, as "K=V".
	Environ func() ([]string, error)
	// History answers requests about the history that were let in, by their paths (/undo), and returns false for others. Nil: they are not there.
	History func(http.ResponseWriter, *http.Request) bool
	// Timeout is how long a command may run; 0 means [DefaultTimeout].
	Timeout time.Duration
	Logger  *slog.Logger // nil: none
}

// Server serves the API. Make it with [New]. Its methods are safe for concurrent use.
type Server struct {
	o       Options
	home    string // the folder
	clients *frontend.Clients
}

// New makes a server. The error says that the session has no folder, or has ended.
func New(o Options) (*Server, error) {
	st, err := o.Live.Status(context.Background())
	if err != nil {
		return nil, err
	}
	home, err := frontend.FoldersOf(st).Path("")
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Token == nil {
		o.Token = func() string { return "" }
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return &Server{o: o, home: home, clients: frontend.NewClients(frontendName)}, nil
}

// Serve serves on a listener ([web.Listen]) until ctx ends, and closes it. Requests that are under way then are answered if the session ends their commands soon. It is called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	loopback := web.IsLoopback(l)
	access := web.Access{Loopback: loopback, Refuse: func(w http.ResponseWriter, _ *http.Request, status int, text string) {
		w.Header().Set("Connection", "close")
		answerError(w, fail(status, "%s", text))
	}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := s.route(w, r, loopback); err != nil {
			answerError(w, err)
		}
	})
	return web.Serve(ctx, l, access.Handler(handler), web.Serving{Logger: s.o.Logger, Grace: grace, Connected: s.clients.Connected, State: s.clients.State})
}

// verb finds a request by the first name of its path. What follows that is the request's own, as it was sent but for its escapes: nothing of it is cleaned or redirected.
func (s *Server) verb(name string) (method string, do func(w http.ResponseWriter, r *http.Request, rest string) error) {
	switch name {
	case "execute":
		return http.MethodPost, s.execute
	case "upload":
		return http.MethodPost, s.upload
	case "download":
		return http.MethodGet, s.download
	case "list":
		return http.MethodGet, s.list
	case "exists":
		return http.MethodGet, s.exists
	}
	return "", nil
}

// route finds out who answers.
func (s *Server) route(w http.ResponseWriter, r *http.Request, loopback bool) error {
	if r.Header.Get("Sec-Fetch-Site") != "" { // Origin was looked at
		return fail(http.StatusForbidden, "no browser may ask this server")
	}
	if r.URL.Path == "/" {
		return s.status(w, r)
	}
	if err := s.admit(r, loopback); err != nil {
		return err
	}
	name, rest, deeper := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	method, do := s.verb(name)
	switch {
	case do == nil && s.o.History != nil && s.o.History(w, r):
		return nil
	case do == nil || deeper && method == http.MethodPost:
		return fail(http.StatusNotFound, "there is no such request")
	case r.Method != method:
		w.Header().Set("Allow", method)
		return fail(http.StatusMethodNotAllowed, "/%s is for %s", name, method)
	}
	return do(w, r, rest)
}

// admit tells whether a request may do something here.
func (s *Server) admit(r *http.Request, loopback bool) error {
	token := s.o.Token()
	switch {
	case token == "" && (loopback || s.o.Open):
		return nil
	case token == "":
		return fail(http.StatusUnauthorized, "this sandbox has no token yet, and without one nobody is let in at this address")
	case subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Access-Token")), []byte(token)) != 1:
		return fail(http.StatusUnauthorized, "the access token (X-Access-Token) is missing, or not this sandbox's")
	}
	return nil
}

// status says that the sandbox runs.
func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return fail(http.StatusMethodNotAllowed, "/ is for GET")
	}
	select {
	case <-s.o.Live.Done():
		return fail(http.StatusServiceUnavailable, "the session has ended")
	default:
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok", "message": "the sandbox runs"})
	return nil
}

// body is the body of a request: at most so many bytes, of which some have to come all the time.
func (s *Server) body(w http.ResponseWriter, r *http.Request, most int64) io.Reader {
	return &counted{web.Body(w, r, most, bodyTimeout), frontend.ClientOf(r)}
}

// counted tells the connection's figures what comes.
type counted struct {
	io.Reader
	client *frontend.Client // nil in a test
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.client != nil {
		c.client.In.Add(int64(n))
	}
	return n, err
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // an output may have many of these characters
	if err := e.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		b.WriteString(`{"message":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // who has gone needs no answer
}
