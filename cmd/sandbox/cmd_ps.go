package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

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
					fmt.Fprintf(w, "%s\t%d\t%s\n", s.Session, s.PID, format.Shown(strings.Join(s.Directories, ", ")))
				}
			})
		},
	}
}
