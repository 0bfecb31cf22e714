package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func (a *app) historyCommand() *cobra.Command {
	var limit int
	var picture bool
	cmd := &cobra.Command{
		Use:     "history",
		Aliases: []string{"log"},
		Short:   "List the steps that can be undone, newest first",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if picture && a.flags.json {
				return console.Usagef("--graph is a picture for people, --json is data: say one of them")
			}
			return a.launch.Looking(cmd.Context(), func(s api.Service, d api.Directory) error {
				return a.history(cmd.Context(), s, api.HistoryRequest{Directory: d.Path, Limit: limit, Undone: picture})
			})
		},
	}
	cmd.AddCommand(a.historyNewCommand())
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "list at most this many entries (0: all)")
	cmd.Flags().BoolVar(&picture, "graph", false, "draw the history, with a lane for each run of an agent, and with what 'sandbox redo' would bring back")
	return cmd
}

func (a *app) historyNewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Begin a new history where there is that of another folder, which is kept aside",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.launch.FolderWithHistory()
			if err != nil {
				return err
			}
			aside, err := a.launch.NewHistory(cmd.Context(), dir)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stderr, "The next step begins a new history of "+console.Shown(dir.Path)+". The other one is in "+console.Shown(aside)+" now, where its folder finds it.")
			return nil
		},
	}
}

func (a *app) history(ctx context.Context, s api.Service, r api.HistoryRequest) error {
	entries, err := s.History(ctx, r)
	if err != nil {
		return err
	}
	marks, err := s.Mark(ctx, api.MarkRequest{Directory: r.Directory})
	if err != nil {
		return err
	}
	entries = console.WithMarks(entries, marks)
	if a.flags.json {
		if entries == nil {
			entries = []undolog.Entry{}
		}
		return a.out.JSON(entries)
	}
	if r.Undone {
		entries = append(openStep(ctx, s), entries...)
	}
	if len(entries) == 0 {
		fmt.Fprintln(a.stderr, "No steps yet in "+console.Shown(r.Directory)+".")
		return nil
	}
	now := time.Now()
	defer a.nearLimits(ctx, s, r.Directory)
	if r.Undone {
		return console.DrawGraph(a.out, entries, console.GraphOptions{Width: console.Width(a.stdout), ASCII: !console.UTF8(os.Getenv), Paint: a.paint, Now: now})
	}
	return a.out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "STEP\tWHEN\tCHANGED\tSTATUS\tCOMMAND")
		for _, e := range entries {
			fmt.Fprintln(w, a.historyLine(e, now))
		}
	})
}

// nearLimits says below a history which limits it is near.
func (a *app) nearLimits(ctx context.Context, s api.Service, directory string) {
	st, err := s.Status(ctx)
	if err != nil {
		return
	}
	for _, d := range st.Directories {
		if d.Path != directory {
			continue
		}
		for _, near := range d.Log.Near {
			fmt.Fprintln(a.stderr, "sandbox: "+near)
		}
	}
}

// openStep is an entry for the step that is open, if one is.
func openStep(ctx context.Context, s api.Service) []undolog.Entry {
	st, err := s.Status(ctx)
	if err != nil || st.OpenStep == nil {
		return nil
	}
	e := undolog.Entry{StepID: *st.OpenStep, Type: console.TypeOpen, Command: st.OpenCommand, CommandCount: len(st.Running)}
	if len(st.Running) > 0 {
		e.Command, e.StartedAt = st.Running[0].Command, st.Running[0].StartedAt
	}
	return []undolog.Entry{e}
}

func (a *app) historyLine(e undolog.Entry, now time.Time) string {
	kind, what := console.KindOf(e), console.Label(e, 80)
	switch {
	case kind == console.KindMark:
		return "mark\t" + console.Ago(e.StartedAt, now) + "\t\t\t" + a.paint.Kind(kind, what)
	case kind == console.KindBarrier:
		return "barrier\t" + console.Ago(e.StartedAt, now) + "\t" + barrierCount(e) + "\t\t" + a.paint.Kind(kind, what)
	case kind == console.KindAmbient:
		what = a.paint.Dim(what)
	case e.CommandCount > 1:
		what = console.Label(e, 60) + a.paint.Dim("  and "+console.Commands(e.CommandCount-1))
	}
	if e.Group != 0 {
		what += a.paint.Dim(fmt.Sprintf("  [run %d]", e.Group))
	}
	if e.LooksOnly {
		what += a.paint.Dim("  [looks only]")
	}
	if n := len(e.Barriers); n > 0 {
		what += "  " + a.paint.Kind(console.KindBarrier, console.Barriers(e.Barriers))
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", e.StepID, console.Ago(e.StartedAt, now), console.Paths(e.AffectedCount), console.EntryStatus(e), what)
}

func barrierCount(e undolog.Entry) string {
	n := 0
	for _, b := range e.Barriers {
		n += len(b.Paths)
	}
	return console.Paths(n)
}
