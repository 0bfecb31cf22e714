package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
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
			return a.launch.WithService(cmd.Context(), func(s api.Service, d api.Directory) error {
				return a.history(cmd.Context(), s, d, limit)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "list at most this many entries (0: all)")
	return cmd
}

func (a *app) history(ctx context.Context, s api.Service, d api.Directory, limit int) error {
	entries, err := s.History(ctx, api.HistoryRequest{Directory: d.Path, Limit: limit})
	if err != nil {
		return err
	}
	marks, err := s.Mark(ctx, api.MarkRequest{Directory: d.Path})
	if err != nil {
		return err
	}
	entries = withMarks(entries, marks)
	if a.flags.json {
		if entries == nil {
			entries = []undolog.Entry{}
		}
		return a.out.JSON(entries)
	}
	if len(entries) == 0 {
		fmt.Fprintln(a.stderr, "No steps yet in "+format.Shown(d.Path)+".")
		return nil
	}
	now := time.Now()
	return a.out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "STEP\tWHEN\tCHANGED\tSTATUS\tCOMMAND")
		for _, e := range entries {
			fmt.Fprintln(w, a.historyLine(e, now))
		}
	})
}

// typeMark is the type of an entry that withMarks adds.
const typeMark undolog.StepType = "mark"

// withMarks adds the marks that can be reached to entries, the newest first, each above
// the step after which it was set. What is older than the listed entries comes last.
func withMarks(entries []undolog.Entry, marks []undolog.Mark) []undolog.Entry {
	for _, m := range marks {
		if m.Lost != "" {
			continue
		}
		at := slices.IndexFunc(entries, func(e undolog.Entry) bool {
			return e.Seq <= m.Seq && e.Type != undolog.TypeBarrier
		})
		if at < 0 {
			at = len(entries)
		}
		entries = slices.Insert(entries, at, undolog.Entry{
			Seq: m.Seq, StepID: m.After, Type: typeMark, Command: m.Name, StartedAt: m.At, EndedAt: m.At, AffectedPaths: []string{}, Barriers: []undolog.Barrier{},
		})
	}
	return entries
}

func (a *app) historyLine(e undolog.Entry, now time.Time) string {
	if e.Type == typeMark {
		return "mark\t" + format.Ago(e.StartedAt, now) + "\t\t\t" + a.paint.Green(format.Shown(e.Command))
	}
	if e.Type == undolog.TypeBarrier {
		return "barrier\t" + format.Ago(e.StartedAt, now) + "\t" + barrierCount(e) + "\t\t" + a.paint.Yellow(format.Barriers(e.Barriers))
	}
	what := format.OneLine(e.Command, 80)
	if e.CommandCount > 1 {
		what = format.OneLine(e.Command, 60) + a.paint.Dim("  and "+format.Commands(e.CommandCount-1))
	}
	if e.Type == undolog.TypeAmbient {
		what = a.paint.Dim("(written between commands)")
	}
	if e.Group != 0 {
		what += a.paint.Dim(fmt.Sprintf("  [run %d]", e.Group))
	}
	if n := len(e.Barriers); n > 0 {
		what += "  " + a.paint.Yellow(format.Barriers(e.Barriers))
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", e.StepID, format.Ago(e.StartedAt, now), format.Paths(e.AffectedCount), format.EntryStatus(e), what)
}

func barrierCount(e undolog.Entry) string {
	n := 0
	for _, b := range e.Barriers {
		n += len(b.Paths)
	}
	return format.Paths(n)
}
