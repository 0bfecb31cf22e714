package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

func (a *app) inspectCommand() *cobra.Command {
	var watch, messages bool
	cmd := &cobra.Command{
		Use:   "inspect [SESSION]",
		Short: "Show the live parts of a running session",
		Long: "Show the live parts of a running session: their state, queues, restarts and held operations. With --messages and\n" +
			"--watch also the messages that each part took last, with their times.\n" +
			"Without SESSION: the one that has the working folder open, or the only one that runs.",
		Args: checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.inspected(cmd.Context(), args)
			if err != nil {
				return err
			}
			defer s.Close(cmd.Context())
			if watch && (!term.IsTerminal(int(a.stdout.Fd())) || !term.IsTerminal(int(a.stdin.Fd()))) {
				return console.Usagef("--watch needs a terminal; use --json to follow a session from a program")
			}
			if watch {
				return console.WatchTree(cmd.Context(), a.stdin, a.stdout, s)
			}
			tree, err := s.Inspect(cmd.Context())
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.out.JSON(tree)
			}
			if err := a.out.Table(func(w io.Writer) { console.WriteTree(w, tree) }); err != nil || !messages {
				return err
			}
			return a.out.Table(func(w io.Writer) { fmt.Fprintln(w); console.WriteMessages(w, tree, 0) })
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "keep showing, as a full-screen view (q to leave)")
	cmd.Flags().BoolVar(&messages, "messages", false, "show the messages that each part took last, with their times; --json always has them")
	return cmd
}

// inspected finds the session to look into.
func (a *app) inspected(ctx context.Context, args []string) (api.Service, error) {
	list, err := a.launch.Sessions()
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		for _, info := range list {
			if info.Session == args[0] {
				return actors.Dial(ctx, info.Socket)
			}
		}
		return nil, fmt.Errorf("no session %q is running: 'sandbox ps' lists them", args[0])
	}
	dirs, err := a.launch.Directories(true)
	if err == nil {
		for _, info := range list {
			if slices.Contains(info.Directories, dirs[0].Path) {
				return actors.Dial(ctx, info.Socket)
			}
		}
	}
	if len(list) == 1 && len(a.flags.dirs) == 0 {
		return actors.Dial(ctx, list[0].Socket)
	}
	if len(list) == 0 {
		return nil, errors.New("no session is running")
	}
	return nil, fmt.Errorf("no running session has this folder open: 'sandbox ps' lists the %d that run", len(list))
}
