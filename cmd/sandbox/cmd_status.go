package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the working folders' histories in figures, and the session that has them open",
		Long: "Show the working folders' histories in figures, and the session that has them open.\n" +
			"With --json it is an object, or an array of them if several folders are named.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}

func (a *app) status(ctx context.Context) error {
	dirs, err := a.launch.Directories(true)
	if err != nil {
		return err
	}
	var all []api.Status
	for _, d := range dirs {
		if slices.ContainsFunc(all, func(st api.Status) bool {
			return slices.ContainsFunc(st.Directories, func(known api.DirectoryStatus) bool { return known.Path == d.Path })
		}) {
			continue // a folder of a session that was shown
		}
		st, err := a.statusOf(ctx, d)
		if err != nil {
			return err
		}
		all = append(all, st)
	}
	switch {
	case a.flags.json && len(dirs) == 1:
		return a.out.JSON(all[0])
	case a.flags.json:
		return a.out.JSON(all)
	}
	for i, st := range all {
		a.printStatus(st, i == 0 || all[i-1].State != st.State || st.State != "offline")
	}
	return nil
}

func (a *app) statusOf(ctx context.Context, dir api.Directory) (api.Status, error) {
	s, err := a.launch.ServiceOf(ctx, dir)
	if err != nil {
		return api.Status{}, err
	}
	st, err := s.Status(ctx)
	return st, errors.Join(err, s.Close(ctx))
}

// printStatus prints the folders and, before them, the session.
func (a *app) printStatus(st api.Status, session bool) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(a.out, "%-9s %s\n", key, fmt.Sprintf(format, args...))
	}
	switch {
	case !session:
	case st.State == "offline":
		line("session", "none running")
	default:
		line("session", "%s, %s, process %d, isolation %s, started %s",
			st.Session, st.State, st.PID, st.Isolation, console.Ago(st.StartedAt, time.Now()))
	}
	if st.OpenStep != nil {
		line("running", "step %d", *st.OpenStep)
		if len(st.Running) > 1 {
			for _, c := range st.Running {
				line("", "%s, %s", console.OneLine(c.Command, 60), console.Ago(c.StartedAt, time.Now()))
			}
		}
	}
	if st.Pending > 0 {
		line("waiting", "%d decision(s): sandbox pending", st.Pending)
	}
	for _, d := range st.Directories {
		label := ""
		if d.Label != "" {
			label = d.Label + " = "
		}
		line("folder", "%s%s (%s)", label, console.Shown(d.Path), d.Access)
		if d.Bridge != nil {
			why := ""
			if reason := st.Machine["bridge_reason"]; reason != "" {
				why = " (" + reason + ")"
			}
			line("bridge", "%s%s", d.Bridge.Kind, why)
		}
		if d.Access == "read_only" && d.UndoDir == "" {
			continue
		}
		line("undo log", "%s", console.Shown(d.UndoDir))
		if d.State != "ok" {
			line("state", "%s %s", d.State, d.Problem)
		}
		if i := d.Log.Interrupted; i != nil {
			line("attention", "%s", strings.TrimPrefix(console.Interruption(*i), "sandbox: "))
		}
		line("steps", "%d to undo, %d to redo", d.Log.Steps, d.Log.Redoable)
		for _, near := range d.Log.Near {
			line("limit", "%s", near)
		}
		line("kept", "%s, of it %s not compressed", console.Bytes(d.Log.StoredBytes), console.Bytes(d.Log.RawBytes))
	}
}
