package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/service"
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
				return console.Usagef("--idle must be positive")
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
	a.addKeyFlags(cmd, a.sessionFlags...)
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
	console.PassedSignals(a.stderr, true) // it would hold them for as long as it lives
	b, err := launch.StartBackground(a.again("start", "--foreground", "--idle", idle.String()))
	switch {
	case err != nil:
		return err
	case cmd.Name() == "start":
		fmt.Fprintf(a.stderr, "session %s started (process %d)\n", b.Session, b.PID)
		return nil
	}
	return messages.ErrEnding
}

// again are arguments for this program with the flags for sessions that it was started with.
func (a *app) again(args ...string) []string {
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
	return args
}

// background is the session, in a process of its own.
func (a *app) background(ctx context.Context, idle time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, console.HeededSignals(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)...)
	defer stop()
	session, err := a.backgroundSession(ctx, stop, idle)
	if err != nil {
		code := exitCode(err)
		var locked *undolog.LockedError
		return &console.Error{Code: code, Err: launch.Background{Error: err.Error(), Code: code, Again: errors.As(err, &locked) && !locked.Moved}.Report()}
	}
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

func (a *app) backgroundSession(ctx context.Context, stop func(), idle time.Duration) (api.Live, error) {
	launch.Restrain(a.launch.Log)
	if err := a.launch.Useless(); err != nil {
		return nil, err
	}
	cfg, err := a.launch.SessionConfig()
	if err != nil {
		return nil, err
	}
	cfg.Idle, cfg.Stop = idle, stop
	a.launch.Attended(&cfg)
	session, err := (&launch.Walls{Alone: true}).Start(ctx, cfg, a.launch.Log)
	if err != nil {
		return nil, err
	}
	a.launch.Notify(session, cfg)
	_ = os.Chdir("/") // hold no directory of the user's
	return session, nil
}

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop [ID]",
		Short: "End the session that has the folder, or that with the id",
		Long:  "End the session that has the folder, or that with the id, as 'sandbox ps' lists it: its commands are cancelled, and their steps are closed. They can be undone.",
		Args:  checkArgs(cobra.MaximumNArgs(1)),

		ValidArgsFunction: a.sessionIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := a.session(ctx, strings.Join(args, ""))
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

// session is the session with the id, or without one that of the folder.
func (a *app) session(ctx context.Context, id string) (api.Joined, error) {
	if id != "" {
		if len(a.flags.dirs) > 0 {
			return nil, console.Usagef("the id names the session: leave -C out")
		}
		return a.launch.SessionByID(ctx, id)
	}
	place, err := a.launch.Place(a.keyFlags)
	if err != nil {
		return nil, err
	}
	return place.Running(ctx)
}

// sessionIDs completes the id of a session, once.
func (a *app) sessionIDs(_ *cobra.Command, args []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
	list, err := (&launch.Launcher{Remark: func(string) {}}).Sessions() // nothing else of it is set up where a shell asks
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, s := range list {
		ids = append(ids, cobra.CompletionWithDesc(s.Session, console.Shown(strings.Join(s.Directories, ", "))))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// services are the commands that look after what runs in a session.
func (a *app) services() service.Commands {
	return service.Commands{Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json }, Session: a.session, IDs: a.sessionIDs}
}

func (a *app) attachCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "attach [ID] [-- COMMAND [ARG...]]",
		Short: "Run a shell, or another command, in the session that has the folder, or in that with the id",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if n := cmd.ArgsLenAtDash(); n >= 0 && n < len(args) { // what completes words adds a dash at their end
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.sessionIDs(cmd, args, start)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, argv := args, []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				ids = args[:n]
				if n < len(args) {
					argv = args[n:]
				}
			}
			if len(ids) > 1 {
				return console.Usagef("write -- before the command: sandbox attach %s -- %s", api.ShellQuote(ids[0]), api.ShellQuote(ids[1:]...))
			}
			o.attach, o.session = true, strings.Join(ids, "")
			return a.run(cmd.Context(), cmd, argv, o)
		},
	}
	cmd.Flags().StringArrayVar(&o.env, "env", nil, "set a variable, `K=V`, or pass one on that is held back, K (repeatable)")
	return cmd
}
