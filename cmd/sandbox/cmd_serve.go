package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/logging"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/telemetry"
)

type serveOptions struct{ protocol string }

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --protocol stdio|mcp",
		Short: "Let another program drive a session over stdin and stdout",
		Long: "Let another program drive a session over stdin and stdout: by JSON lines (stdio), where session.start starts it,\n" +
			"or by the Model Context Protocol (mcp), where it starts at once. --mcp-socket serves MCP clients beside that.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.protocol, "protocol", "stdio", "stdio or mcp")
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"stdio", "mcp"}, cobra.ShellCompDirectiveNoFileComp))
	a.addKeyFlags(cmd, sessionFlags...)
	a.addKeyFlags(cmd, serveFlags...)
	return cmd
}

// server is one run of serve.
type server struct {
	a       *app
	env     []string
	in, out *os.File
	hide    []string // the socket and its token: nothing inside may reach them
	live    atomic.Pointer[api.Live]
	mcp     *mcp.Server
	tell    *telemetry.Telemetry // may be nil
	advice  atomic.Pointer[advice]
}

func (a *app) serve(ctx context.Context, o serveOptions) (err error) {
	if o.protocol != "stdio" && o.protocol != "mcp" {
		return usageError{fmt.Errorf("--protocol: %q is not one of stdio, mcp", o.protocol)}
	}
	s := &server{a: a}
	if s.env, err = environment(os.Environ(), nil); err != nil {
		return err
	}
	if s.in, err = takeStdin(a.stdin, a.stderr); err != nil {
		return err
	}
	defer s.in.Close()
	if s.out, err = takeStdout(a.stdout, a.stderr); err != nil {
		return err
	}
	defer s.out.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // a client that is gone is an error of a write
	defer signal.Stop(broken)

	var farewell func()
	s.tell, farewell = a.startTelemetry(ctx)
	defer farewell() // when every session has ended

	k, err := newAdvice(a.conf)
	if err != nil {
		return err
	}
	s.advice.Store(k)
	s.mcp = mcp.New(mcp.Options{
		Session: s.session, Env: s.env, Classify: s.classifyForMCP, Version: version, Logger: a.log, DefaultTimeout: time.Duration(a.conf.MCP.Timeout),
	})
	defer s.mcp.Close()
	closeSocket, err := s.listen(ctx, a.conf.MCP.Socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSocket()) }()
	if o.protocol == "mcp" {
		return s.serveMCP(ctx)
	}
	err = stdio.New(stdio.Options{
		In: s.in, Out: s.out, Start: s.start, DefaultDirectories: len(a.flags.dirs)+len(a.conf.Directories) > 0,
		OnSession: s.setSession, Environ: s.env, AgentCommand: a.conf.Agent.Command,
		Classify: s.classifyForStdio, DefaultTimeout: time.Duration(a.conf.Stdio.Timeout), Version: version, Logger: a.log,
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
	announce, err := logging.New(s.a.stderr, "info", s.a.conf.Log.Format) // whatever the level
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

// serveMCP starts a session and serves one client.
func (s *server) serveMCP(ctx context.Context) error {
	cfg, err := s.a.sessionConfig()
	if err != nil {
		return err
	}
	live, err := s.run(ctx, cfg, s.a.conf)
	if err != nil {
		return err
	}
	s.setSession(live)
	err = s.mcp.ServeStdio(ctx, s.in, s.out)
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
	live, err := actors.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.advice.Store(k)
	return guarded{Live: s.tell.Live(live), locked: s.a.base.LockOf, ask: k.question}, nil
}
