package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

func (a *app) pendingCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pending",
		Short: "List the operations that wait for a decision",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []api.Pending{}
			err := a.launch.EachSession(cmd.Context(), func(s api.Service) error {
				list, err := s.Pending(cmd.Context())
				all = append(all, list...)
				return err
			})
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.out.JSON(all)
			}
			if len(all) == 0 {
				fmt.Fprintln(a.stderr, "Nothing waits for a decision.")
				return nil
			}
			return a.out.Table(func(w io.Writer) {
				fmt.Fprintln(w, "ID\tSTEP\tLEFT\tFOLDER\tWHAT\tWHO ASKS")
				for _, p := range all {
					step := "-" // it has not begun
					if p.Step != 0 {
						step = strconv.FormatInt(int64(p.Step), 10)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", p.ID, step, console.Took(time.Until(p.Deadline)), console.Shown(p.Directory), console.Shown(p.Message), asker(p))
				}
			})
		},
	}
}

// asker is the program that asks, or else the command: one that is known.
func asker(p api.Pending) string {
	switch {
	case len(p.Callers) > 0 && p.Callers[0].CommandLine != "":
		return console.OneLine(p.Callers[0].CommandLine, 60)
	case len(p.Callers) > 0:
		return console.OneLine(p.Callers[0].Name, 60)
	case p.Command != "":
		return console.OneLine(p.Command, 60)
	}
	return "-"
}
