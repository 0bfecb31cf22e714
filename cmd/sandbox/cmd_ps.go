package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

func (a *app) psCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ps [ID]",
		Aliases: []string{"ls"},
		Short:   "List the running sessions of this user, or what runs in the one with the id",
		Args:    checkArgs(cobra.MaximumNArgs(1)),

		ValidArgsFunction: a.sessionIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.services().Processes(cmd, args)
			}
			list, err := a.launch.Sessions()
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
					fmt.Fprintf(w, "%s\t%d\t%s\n", s.Session, s.PID, console.Shown(strings.Join(s.Directories, ", ")))
				}
			})
		},
	}
}
