package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [STEP]",
		Short: "Show what one step did (default: the newest)",
		Args:  checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			step, err := stepArg(args)
			if err != nil {
				return err
			}
			return a.withService(cmd.Context(), func(s actors.Service, d actors.Directory) error {
				return a.show(cmd.Context(), s, actors.StepRequest{Directory: d.Path, Step: step})
			})
		},
	}
}

func (a *app) show(ctx context.Context, s actors.Service, r actors.StepRequest) error {
	st, err := s.Show(ctx, r)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(st)
	}
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&a.out, "%-9s %s\n", key, value)
		}
	}
	line("step", fmt.Sprintf("%d (%s)", st.StepID, st.Type))
	line("command", shown(st.Command))
	line("in", shown(st.Dir))
	line("started", st.StartedAt.Local().Format(time.DateTime)+", "+ago(st.StartedAt, time.Now()))
	if !st.EndedAt.IsZero() {
		line("took", took(st.EndedAt.Sub(st.StartedAt)))
	}
	line("status", entryStatus(st.Entry))
	line("damaged", st.Damaged)
	line("keeps", bytesText(st.StoredBytes))
	if len(st.Barriers) > 0 {
		line("barrier", barrierText(st.Barriers))
	}
	line("changed", paths(st.AffectedCount))
	a.printPaths(st.Paths, 0)
	return nil
}

// stepArg parses an optional step id; 0 if there is none.
func stepArg(args []string) (undolog.StepID, error) {
	if len(args) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || n == 0 {
		return 0, usageError{fmt.Errorf("%q is not a step: 'sandbox history' lists them", args[0])}
	}
	return undolog.StepID(n), nil
}
