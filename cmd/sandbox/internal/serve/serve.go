package serve

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// Options are what [Run] serves with.
type Options struct {
	Protocol              string // stdio or mcp; e2b has [RunE2B]
	Stdin, Stdout, Stderr *os.File
	Launcher              *launch.Launcher  // with the configuration that holds at the start
	Base                  *config.Set       // without the project's file and most flags
	Flags                 config.FlagValues // that were given
	ConfigFile            string            // named by the user: then no project's file is read
	Env                   []string          // of commands
	Version               string
	UI                    bool // serve the page, too
	UIPort                int  // where; 0: at a free port
	// Again are the arguments with which this program has one session over STDIO in our place, see [stdio.Other].
	Again []string
	// HTTP is where MCP is served in the place of stdin and stdout (no address: it is not), or the protocol e2b.
	HTTP web.Settings
	// Metrics is where Prometheus asks (HOST:PORT); empty: nowhere.
	Metrics string
	// Part says that we are the program that does so.
	Part bool
}

// closeTimeout bounds the orderly end of a session.
const closeTimeout = 20 * time.Second

// server is one run.
type server struct {
	Options
	conf    *config.Set // the launcher's
	in, out *os.File
	hide    []string // the socket and its token: nothing inside may reach them
	walls   launch.Walls
	live    atomic.Pointer[api.Live]
	served  atomic.Bool // a session has run
	next    *asked      // what the session.start asks for that comes next; it belongs to whoever carries that out
	mcp     *mcp.Server
	figures figures
	advice  atomic.Pointer[advice]
}

// Run serves until the client is gone or ctx ends, then ends the session. INT, TERM
// and HUP end it too.
func Run(ctx context.Context, o Options) (err error) {
	s := &server{Options: o, conf: o.Launcher.Conf}
	s.walls.Alone = (o.Protocol == "mcp" || o.Part) && !o.UI // over STDIO the client may start further sessions, of other folders
	s.walls.Reads = o.HTTP.Files()
	if s.in, err = takeStdin(o.Stdin, o.Stderr); err != nil {
		return err
	}
	defer s.in.Close()
	if s.out, err = takeStdout(o.Stdout, o.Stderr); err != nil {
		return err
	}
	defer s.out.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // a client that is gone is an error of a write
	defer signal.Stop(broken)

	launch.Restrain(o.Launcher.Log)

	k, err := newAdvice(s.conf)
	if err != nil {
		return err
	}
	s.advice.Store(k)
	s.mcp = mcp.New(mcp.Options{
		Session: s.session, Env: o.Env, Classify: s.classifyForMCP, Version: o.Version, Logger: o.Launcher.Log, DefaultTimeout: time.Duration(s.conf.MCP.Timeout),
		Remove: s.walls.Remove,
	})
	defer s.mcp.Close()
	closeSocket, err := s.listen(ctx, s.conf.MCP.Socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSocket()) }()
	closePage, err := s.servePage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePage()) }()
	closeMetrics, err := s.figures.serve(ctx, s.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeMetrics()) }()
	switch {
	case o.Protocol == "mcp" && o.HTTP.Address != "":
		return s.serveHTTP(ctx)
	case o.Protocol == "mcp":
		return s.serveMCP(ctx, func(ctx context.Context) error { return s.mcp.ServeStdio(ctx, s.in, s.out) })
	}
	return s.serveStdio(ctx)
}

// serveStdio serves one client, which starts the sessions.
func (s *server) serveStdio(ctx context.Context) error {
	var takes func(bool) bool
	elsewhere := s.elsewhere
	if s.Part {
		var err error
		if takes, err = s.part(); err != nil {
			return err
		}
		elsewhere = nil
	}
	err := stdio.New(stdio.Options{
		Elsewhere: elsewhere, Takes: takes,
		In: s.in, Out: s.out, Start: s.start, DefaultDirectories: len(s.Launcher.Dirs)+len(s.conf.Directory) > 0,
		OnSession: s.setSession, Environ: s.Env, AgentCommand: s.conf.Agent.Command,
		Classify: s.classifyForStdio, DefaultTimeout: time.Duration(s.conf.Stdio.Timeout), Version: s.Version, Logger: s.Launcher.Log,
	}).Serve(ctx)
	if ctx.Err() != nil {
		return nil // we were asked to end
	}
	return err
}

func (s *server) session() api.Live {
	if l := s.live.Load(); l != nil {
		return *l
	}
	return nil
}

func (s *server) setSession(l api.Live) {
	if l == nil {
		s.live.Store(nil)
		return
	}
	s.live.Store(&l)
}

// listen serves MCP clients on a socket; the result ends that.
func (s *server) listen(ctx context.Context, path string) (func() error, error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	l, err := s.mcp.Listen(path, "")
	if err != nil {
		return nil, err
	}
	token := mcp.TokenFile(l.Path())
	s.hide = []string{l.Path(), token}
	s.walls.Removes = s.hide
	announce, err := console.NewLogger(s.Stderr, "info", s.conf.Log.Format) // whatever the level
	if err != nil {
		return nil, err
	}
	announce.Info("MCP socket", "component", "mcp", "path", l.Path(), "token_file", token)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = l.Serve(ctx) })
	return func() error { cancel(); wg.Wait(); return failed }, nil
}

// servePage serves the page; the result ends that.
func (s *server) servePage(ctx context.Context) (func() error, error) {
	if !s.UI {
		return func() error { return nil }, nil
	}
	announce, err := console.NewLogger(s.Stderr, "info", s.conf.Log.Format) // whatever the level
	if err != nil {
		return nil, err
	}
	page, err := ServePage(ctx, PageBeside{Port: s.UIPort, Launch: s.Launcher, Logger: s.Launcher.Log, Version: s.Version})
	if err != nil {
		return nil, err
	}
	announce.Info("the page's address is in a file", "component", "ui", "url_file", page.File)
	return page.Close, nil
}

// serveMCP starts a session, and serves until that returns.
func (s *server) serveMCP(ctx context.Context, serve func(context.Context) error) error {
	cfg, err := s.Launcher.SessionConfig()
	if err != nil {
		return err
	}
	live, err := s.run(ctx, cfg, s.conf)
	if err != nil {
		return err
	}
	s.setSession(live)
	err = serve(ctx)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	s.setSession(nil)
	s.mcp.Close()
	return errors.Join(err, live.Close(closing))
}

func (s *server) run(ctx context.Context, cfg api.Config, conf *config.Set) (api.Live, error) {
	k, err := newAdvice(conf)
	if err != nil {
		return nil, err
	}
	cfg.Hide = append(cfg.Hide, s.hide...)
	live, err := s.figures.start(ctx, &s.walls, cfg, s.Launcher.Log)
	if err != nil {
		return nil, err
	}
	s.served.Store(true)
	s.advice.Store(k)
	s.Launcher.Notify(live, cfg)
	return guarded{Live: live, locked: s.Base.LockOf, ask: k.question}, nil
}
