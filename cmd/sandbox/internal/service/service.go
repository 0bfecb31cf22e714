package service

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// Commands are the commands.
type Commands struct {
	Out    *console.Output
	Stderr io.Writer
	// JSON tells whether --json was given, Session finds the session with the id, or, if that is empty, the one that has
	// the folder. IDs completes ids.
	JSON    func() bool
	Session func(ctx context.Context, id string) (api.Joined, error)
	IDs     cobra.CompletionFunc
}

// Service is 'sandbox service'.
func (c Commands) Service() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "List, read and stop the services of a session",
		Long: "List, read and stop the services of a session: commands with a name that run beside the steps.\n" +
			"'sandbox run --service NAME -- COMMAND' starts one. A service holds no step open; it ends with the session.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.list(), c.output(), c.stop())
	return cmd
}

// with asks the session that has the folder, or that with the id which the arguments hold.
func (c Commands) with(cmd *cobra.Command, args []string, ask func(context.Context, api.Joined) error) error {
	ctx := cmd.Context()
	s, err := c.Session(ctx, strings.Join(args, ""))
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	return ask(ctx, s)
}

func (c Commands) list() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the services of the session that has the folder", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd, nil, func(ctx context.Context, s api.Joined) error {
				list, err := s.Services(ctx)
				if err != nil {
					return err
				}
				if c.JSON() {
					return c.Out.JSON(api.OrEmpty(list))
				}
				if len(list) == 0 {
					fmt.Fprintln(c.Stderr, "The session has no services.")
					return nil
				}
				now := time.Now()
				return c.Out.Table(func(w io.Writer) {
					fmt.Fprintln(w, "NAME\tSTATE\tSTARTED\tOUTPUT\tCOMMAND")
					for _, v := range list {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Name, State(v), console.Ago(v.StartedAt, now), console.Bytes(v.OutputBytes), console.OneLine(v.Command, 60))
					}
				})
			})
		},
	}
}

// State is a service's, with its exit status.
func State(v api.ServiceStatus) string {
	switch {
	case v.State == api.ServiceRunning:
		return v.State
	case v.ExitCode != nil:
		return fmt.Sprintf("exit %d", *v.ExitCode)
	}
	return v.State
}

func (c Commands) output() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "output NAME", Short: "Print the newest of what a service has written", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return console.Usagef("--bytes must not be negative")
			}
			return c.with(cmd, nil, func(ctx context.Context, s api.Joined) error {
				out, err := s.ServiceOutput(ctx, api.ServiceOutputRequest{Name: args[0], Limit: limit})
				if err != nil {
					return err
				}
				if c.JSON() {
					return c.Out.JSON(out)
				}
				if out.Omitted > 0 {
					fmt.Fprintf(c.Stderr, "(%s before this are left out)\n", console.Bytes(out.Omitted))
				}
				_, err = c.Out.Write(out.Data)
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "bytes", "n", 0, "print at most this many bytes (0: the 256 KiB that are kept)")
	return cmd
}

func (c Commands) stop() *cobra.Command {
	return &cobra.Command{
		Use: "stop NAME", Short: "End a service: TERM, and KILL after 2 seconds", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, nil, func(ctx context.Context, s api.Joined) error {
				v, err := s.StopService(ctx, api.ServiceName{Name: args[0]})
				if err != nil {
					return err
				}
				if c.JSON() {
					return c.Out.JSON(v)
				}
				fmt.Fprintf(c.Stderr, "service %s: %s\n", v.Name, State(v))
				return nil
			})
		},
	}
}

// Kill is 'sandbox kill'.
func (c Commands) Kill() *cobra.Command {
	return &cobra.Command{
		Use:   "kill [ID]",
		Short: "End the commands that run in the session that has the folder, or in that with the id",
		Long: "End the commands that run in the session that has the folder, or in that with the id: TERM, and KILL after 2 seconds.\n" +
			"Their step is closed, and can be undone. Services and the session go on.",
		Args: usage(cobra.MaximumNArgs(1)), ValidArgsFunction: c.IDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, args, func(ctx context.Context, s api.Joined) error {
				n, err := s.Kill(ctx)
				if err != nil {
					return err
				}
				if c.JSON() {
					return c.Out.JSON(map[string]int{"commands": n})
				}
				fmt.Fprintf(c.Stderr, "%d command(s) ended\n", n)
				return nil
			})
		},
	}
}

// Processes prints what runs in the session with the id.
func (c Commands) Processes(cmd *cobra.Command, args []string) error {
	return c.with(cmd, args, func(ctx context.Context, s api.Joined) error {
		list, err := s.Processes(ctx)
		if err != nil {
			return err
		}
		if c.JSON() {
			return c.Out.JSON(api.OrEmpty(list))
		}
		if len(list) == 0 {
			fmt.Fprintln(c.Stderr, "Nothing runs in the session.")
			return nil
		}
		now := time.Now()
		return c.Out.Table(func(w io.Writer) {
			fmt.Fprintln(w, "PID\tPARENT\tSTATE\tCPU\tAGE\tCOMMAND")
			for _, p := range list {
				line := p.CommandLine
				if line == "" { // as ps shows what has none
					line = "[" + p.Name + "]"
				}
				fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\n", p.PID, p.Parent, console.Shown(p.State), console.Took(p.CPU), console.Took(now.Sub(p.StartedAt)), console.OneLine(line, 100))
			}
		})
	})
}

// usage makes a mistake in the arguments one of usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return console.Usage(err)
		}
		return nil
	}
}
