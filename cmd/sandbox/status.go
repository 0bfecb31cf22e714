package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the working folder's history in figures, and the session that has it open",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withService(cmd.Context(), func(s actors.Service, _ actors.Directory) error {
				st, err := s.Status(cmd.Context())
				if err != nil {
					return err
				}
				if a.flags.json {
					return a.printJSON(st)
				}
				a.printStatus(st)
				return nil
			})
		},
	}
}

func (a *app) printStatus(st actors.Status) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(a.stdout, "%-9s %s\n", key, fmt.Sprintf(format, args...))
	}
	if st.State == "offline" {
		line("session", "none running")
	} else {
		line("session", "%s, %s, process %d, isolation %s, started %s",
			st.Session, st.State, st.PID, st.Isolation, ago(st.StartedAt, time.Now()))
	}
	if st.OpenStep != nil {
		line("running", "step %d", *st.OpenStep)
	}
	if st.Pending > 0 {
		line("waiting", "%d decision(s): sandbox pending", st.Pending)
	}
	for _, d := range st.Directories {
		label := ""
		if d.Label != "" {
			label = d.Label + " = "
		}
		line("folder", "%s%s (%s)", label, shown(d.Path), d.Access)
		if d.Access == "read_only" && d.UndoDir == "" {
			continue
		}
		line("undo log", "%s", shown(d.UndoDir))
		if d.State != "ok" {
			line("state", "%s %s", d.State, d.Problem)
		}
		line("steps", "%d to undo, %d to redo", d.Log.Steps, d.Log.Redoable)
		line("kept", "%s, of it %s not compressed", bytesText(d.Log.StoredBytes), bytesText(d.Log.RawBytes))
	}
}
