package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
)

func (a *app) psCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ps",
		Aliases: []string{"ls"},
		Short:   "List the running sessions of this user",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			list, err := a.sessions()
			if err != nil {
				return err
			}
			if a.flags.json {
				if list == nil {
					list = []api.SessionInfo{}
				}
				return a.out.JSON(list)
			}
			if len(list) == 0 {
				fmt.Fprintln(a.stderr, "No session is running.")
				return nil
			}
			return a.out.Table(func(w io.Writer) {
				fmt.Fprintln(w, "SESSION\tPID\tFOLDERS")
				for _, s := range list {
					fmt.Fprintf(w, "%s\t%d\t%s\n", s.Session, s.PID, format.Shown(strings.Join(s.Directories, ", ")))
				}
			})
		},
	}
}

func (a *app) sessions() ([]api.SessionInfo, error) {
	dir, err := runtimeDir()
	if err != nil {
		return nil, err
	}
	return actors.Sessions(dir), nil
}

// eachSession calls f with a client of every running session of this user. A
// session that ends meanwhile is passed over.
func (a *app) eachSession(ctx context.Context, f func(api.Service) error) error {
	list, err := a.sessions()
	if err != nil {
		return err
	}
	for _, info := range list {
		s, err := actors.Dial(ctx, info.Socket)
		if err != nil {
			a.log.Debug("session does not answer", "component", "cli", "session", info.Session, "error", err)
			continue
		}
		if err := errors.Join(f(s), s.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}
