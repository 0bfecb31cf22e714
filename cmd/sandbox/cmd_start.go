package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/job"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/service"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/telemetry"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// defaultIdle is how long a session in the background stays without commands.
const defaultIdle = 30 * time.Minute

func (a *app) startCommand() *cobra.Command {
	var idle time.Duration
	var foreground bool
	cmd := &cobra.Command{
		Use:   "start [flags]",
		Short: "Start a session in the background, for the commands that join it",
		Long: "Start a session in the background, for the commands that join it: 'sandbox run' in the folder, or below it.\n" +
			"It ends by 'sandbox stop', or after --idle without commands.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if idle <= 0 {
				return exit.Usagef("--idle must be positive")
			}
			if foreground {
				return a.background(cmd.Context(), idle)
			}
			return a.start(cmd.Context(), cmd, idle)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&idle, "idle", defaultIdle, "end after this `time` without commands and connections")
	f.BoolVar(&foreground, "foreground", false, "")
	_ = f.MarkHidden("foreground") // it fails only for a flag that is not there
	a.addKeyFlags(cmd, sessionFlags...)
	return cmd
}

// start starts a session in the background, or finds one that will do.
func (a *app) start(ctx context.Context, cmd *cobra.Command, idle time.Duration) error {
	place, err := a.launch.Place(a.keyFlags)
	if err != nil {
		return err
	}
	return place.Attempt(ctx, launch.Attempt{
		Start: func() error { return a.startBackground(cmd, idle) },
		Join: func(s api.Joined) error {
			defer s.Close(ctx)
			keep := time.Duration(0)
			if cmd.Flags().Changed("idle") {
				keep = idle
			}
			if err := s.Offers(ctx, place.Wants(keep)); err != nil {
				return err
			}
			st, err := s.Status(ctx)
			if err == nil {
				fmt.Fprintf(a.stderr, "session %s runs (process %d)\n", st.Session, s.PID())
			}
			return err
		},
	})
}

// startBackground starts this program in the background, with the flags of this
// command. Where a command is to be run it returns messages.ErrEnding then, so that
// the session is looked for.
func (a *app) startBackground(cmd *cobra.Command, idle time.Duration) error {
	args := []string{"start", "--foreground", "--idle", idle.String()}
	for _, d := range a.flags.dirs {
		args = append(args, "--working-dir", d)
	}
	if a.flags.configFile != "" {
		args = append(args, "--config-file", a.flags.configFile)
	}
	for name, v := range a.keyFlags {
		for _, value := range v.Values {
			args = append(args, "--"+name+"="+value)
		}
	}
	job.Passed(a.stderr, true) // it would hold them for as long as it lives
	b, err := launch.StartBackground(args)
	switch {
	case err != nil:
		return err
	case cmd.Name() == "start":
		fmt.Fprintf(a.stderr, "session %s started (process %d)\n", b.Session, b.PID)
		return nil
	}
	return messages.ErrEnding
}

// background is the session, in a process of its own.
func (a *app) background(ctx context.Context, idle time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, job.Heeded(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)...)
	defer stop()
	session, farewell, err := a.backgroundSession(ctx, stop, idle)
	if err != nil {
		code := exitCode(err)
		var locked *undolog.LockedError
		return &exit.Error{Code: code, Err: launch.Background{Error: err.Error(), Code: code, Again: errors.As(err, &locked)}.Report()}
	}
	defer farewell()
	if err := (launch.Background{Session: session.ID(), PID: os.Getpid()}).Report(); err != nil {
		a.log.Warn("nobody waited for the start", "component", "cli", "err", err)
	}
	select {
	case <-ctx.Done():
	case <-session.Done():
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	return session.Close(closing)
}

func (a *app) backgroundSession(ctx context.Context, stop func(), idle time.Duration) (api.Live, func(), error) {
	if err := a.launch.Useless(); err != nil {
		return nil, nil, err
	}
	cfg, err := a.launch.SessionConfig()
	if err != nil {
		return nil, nil, err
	}
	cfg.Idle, cfg.Stop = idle, stop
	exporter, farewell := telemetry.Begin(ctx, telemetry.Options{Getenv: os.Getenv, Console: a.stderr, Version: version, Logger: a.log})
	started, err := actors.Start(ctx, cfg)
	if err != nil {
		farewell()
		return nil, nil, err
	}
	a.launch.Notify(started, cfg)
	_ = os.Chdir("/") // hold no directory of the user's
	return exporter.Live(started), farewell, nil
}

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop [ID]",
		Short: "End the session that has the folder, or that with the id",
		Long:  "End the session that has the folder, or that with the id, as 'sandbox ps' lists it: its commands are cancelled, and their steps are closed. They can be undone.",
		Args:  checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := a.sessionToStop(ctx, args)
			if err != nil {
				return err
			}
			defer s.Close(ctx)
			ctx, done := context.WithTimeout(ctx, closeTimeout)
			defer done()
			return s.Stop(ctx)
		},
	}
}

// sessionToStop is the session with the id, or without one that of the folder.
func (a *app) sessionToStop(ctx context.Context, args []string) (api.Joined, error) {
	if len(args) > 0 {
		return a.launch.SessionByID(ctx, args[0])
	}
	place, err := a.launch.Place(a.keyFlags)
	if err != nil {
		return nil, err
	}
	return place.Running(ctx)
}

// services are the commands that look after what runs in a session.
func (a *app) services() service.Commands {
	return service.Commands{
		Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json },
		Session: func(ctx context.Context) (api.Joined, error) {
			place, err := a.launch.Place(a.keyFlags)
			if err != nil {
				return nil, err
			}
			return place.Running(ctx)
		},
	}
}

func (a *app) attachCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "attach [-- SHELL [ARG...]]",
		Short: "Run a shell in the session that has the folder",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attach = true
			if len(args) == 0 {
				args = []string{"/bin/sh"}
				if shell := os.Getenv("SHELL"); shell != "" {
					args[0] = shell
				}
			}
			return a.run(cmd.Context(), cmd, args, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringArrayVar(&o.env, "env", nil, "set a variable, `K=V`, or pass one on that is held back, K (repeatable)")
	return cmd
}
