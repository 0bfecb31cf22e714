package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func (a *app) historyCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "history",
		Aliases: []string{"log"},
		Short:   "List the steps that can be undone, newest first",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withService(cmd.Context(), func(s actors.Service, d actors.Directory) error {
				return a.history(cmd.Context(), s, d, limit)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "list at most this many entries (0: all)")
	return cmd
}

func (a *app) history(ctx context.Context, s actors.Service, d actors.Directory, limit int) error {
	entries, err := s.History(ctx, actors.HistoryRequest{Directory: d.Path, Limit: limit})
	if err != nil {
		return err
	}
	if a.flags.json {
		if entries == nil {
			entries = []undolog.Entry{}
		}
		return a.printJSON(entries)
	}
	if len(entries) == 0 {
		fmt.Fprintln(a.stderr, "No steps yet in "+shown(d.Path)+".")
		return nil
	}
	now := time.Now()
	return a.table(func(w io.Writer) {
		fmt.Fprintln(w, "STEP\tWHEN\tCHANGED\tSTATUS\tCOMMAND")
		for _, e := range entries {
			fmt.Fprintln(w, a.historyLine(e, now))
		}
	})
}

func (a *app) historyLine(e undolog.Entry, now time.Time) string {
	if e.Type == undolog.TypeBarrier {
		return "barrier\t" + ago(e.StartedAt, now) + "\t" + barrierCount(e) + "\t\t" + a.paint.yellow(barrierText(e.Barriers))
	}
	what := oneLine(e.Command, 80)
	if e.Type == undolog.TypeAmbient {
		what = a.paint.dim("(written between commands)")
	}
	if n := len(e.Barriers); n > 0 {
		what += "  " + a.paint.yellow(barrierText(e.Barriers))
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", e.StepID, ago(e.StartedAt, now), paths(e.AffectedCount), entryStatus(e), what)
}

func entryStatus(e undolog.Entry) string {
	switch {
	case e.Damaged != "":
		return "damaged"
	case e.Unprotected:
		return "unprotected"
	case e.Status != "completed" && e.Status != "":
		return e.Status
	case e.ExitCode != nil && *e.ExitCode != 0:
		return "exit " + strconv.Itoa(*e.ExitCode)
	}
	return "ok"
}

func barrierCount(e undolog.Entry) string {
	n := 0
	for _, b := range e.Barriers {
		n += len(b.Paths)
	}
	return paths(n)
}

// barrierText names the first path that was changed from outside.
func barrierText(list []undolog.Barrier) string {
	n, first := 0, ""
	for _, b := range list {
		n += len(b.Paths)
		if first == "" && len(b.Paths) > 0 {
			first = b.Paths[0]
		}
	}
	text := "changed outside: " + shown(first)
	if n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	return text
}
