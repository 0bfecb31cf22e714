package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/logctx"
	"github.com/codeagent/sandbox/supervision"
)

// Times and numbers; see docs/mcp.md.
const (
	MaxTimeout   = time.Hour        // that a client may ask for
	undoWait     = 30 * time.Second // how long an undo waits for its turn
	maxJobs      = 32               // jobs that a handle names
	jobRetention = 10 * time.Minute // of a result that nobody has fetched
)

// Options make a [Server].
type Options struct {
	// Session returns the session that calls work on, or nil while there is
	// none. It is called for every call, and must be safe for concurrent use.
	Session func() api.Live
	// Env is the environment of commands, as "K=V"; a call adds its own.
	Env []string
	// Classify says what a command seems to do; nil leaves that out. It is
	// advice for the reader of a result and never decides anything.
	Classify func(command string) Classification
	// Version is told to clients.
	Version string
	// DefaultTimeout is a command's without a timeout of its own; 0 means
	// [messages.ToolTime].
	DefaultTimeout time.Duration
	// Clock is injected by tests; nil means the real one.
	Clock api.Clock
	// Logger may be nil.
	Logger *slog.Logger
	// Remove removes a file of a socket that is not served any more: its name, or its token. nil means [os.Remove], which is not for a process that is kept from their directory.
	Remove func(path string) error
}

// Classification is advice about a command.
type Classification struct {
	Class    string   // "read_only", "write" or "destructive"
	Warnings []string // what a person should look at
}

// Server serves the Model Context Protocol. Its methods are safe for concurrent
// use. Close it when it is no longer needed.
type Server struct {
	o      Options
	log    *slog.Logger
	clock  api.Clock
	sdk    *sdk.Server
	ready  ready
	calls  atomic.Int64 // numbers calls
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // jobs
	http   atomic.Pointer[HTTP]

	mu   sync.Mutex
	jobs map[string]*job // by handle: those that outlived their call
	// news is what a client has not been told yet: the next result has it.
	news map[*sdk.ServerSession][]string
}

// New makes a server.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DefaultTimeout == 0 {
		o.DefaultTimeout = messages.ToolTime
	}
	if o.Remove == nil {
		o.Remove = os.Remove
	}
	s := &Server{o: o, log: slog.New(logctx.New(o.Logger.Handler(), logctx.Options{Component: "mcp"})), clock: supervision.RealClock{}, jobs: map[string]*job{}, news: map[*sdk.ServerSession][]string{}}
	if o.Clock != nil {
		s.clock = o.Clock
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sdk = sdk.NewServer(
		&sdk.Implementation{Name: "sandbox", Title: "Sandbox: every command can be undone", Version: o.Version},
		&sdk.ServerOptions{
			Instructions: instructions,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			Logger:       quiet(s.log),
		})
	s.addTools()
	s.sdk.AddReceivingMiddleware(s.overHTTP)
	return s
}

// quiet is the logger of the SDK, which reports as errors what clients do wrong.
func quiet(log *slog.Logger) *slog.Logger {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		return log
	}
	return slog.New(slog.DiscardHandler)
}

// Close cancels the commands that no call waits for any more and returns when
// they have ended.
func (s *Server) Close() {
	s.cancel()
	s.wg.Wait()
	if err := s.ready.close(); err != nil {
		s.log.Warn("pipes that no command has used", "err", err)
	}
}

// ServeStdio serves one client until it closes in, or ctx ends, and returns
// when its calls have ended: those under way are cancelled. Nothing but protocol
// is written to out. A reader that cannot be interrupted stays behind, blocked.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.serve(ctx, &transport{in: in, out: out, close: func() error {
		if c, ok := in.(io.Closer); ok {
			return c.Close()
		}
		return nil
	}})
}

// serve serves one connection.
func (s *Server) serve(ctx context.Context, t *transport) error {
	t.session = s.o.Session
	t.refused = func(code int64) { s.log.Info("request refused", "code", code) } // no text of a client's: it may be anything
	c := t.open()
	c.member.join(ctx)
	defer c.member.leave()
	session, err := s.sdk.Connect(context.WithoutCancel(ctx), connected{c}, nil)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer s.known(session)()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	err = session.Wait()
	if ctx.Err() != nil {
		return nil // we ended it
	}
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}

// known lets a client be told news until the result is called.
func (s *Server) known(client *sdk.ServerSession) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news[client] = nil
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.news, client)
	}
}

// connected is a transport that is connected already.
type connected struct{ sdk.Connection }

// Connect implements [sdk.Transport].
func (c connected) Connect(context.Context) (sdk.Connection, error) { return c.Connection, nil }

// session returns the session, or an error for the model.
func (s *Server) session() (api.Live, error) {
	if live := s.o.Session(); live != nil {
		return live, nil
	}
	return nil, errors.New("no session is running: the frontend has to start one (session.start) before tools can be used")
}
