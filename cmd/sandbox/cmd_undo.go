package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// undoPathsShown is how many paths a dry run lists without -v.
const undoPathsShown = 50

func (a *app) undoCommand() *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:   "undo [N | --group [ID] | --to MARK]",
		Short: "Undo the newest step, the newest N, an agent's whole run, or all since a mark",
		Long: "Undo the newest step, or the newest N steps.\n\n" +
			"If files that a step changed were edited outside the sandbox since, nothing is undone and the exit status is 3; " +
			"--force overwrites those edits. An undo can be taken back by 'sandbox redo' until something new is run.\n\n" +
			"An agent that puts its commands behind 'sandbox run' inside makes many steps in one run: 'sandbox history' names it, as [run 12]. " +
			"--group undoes all of them, or none. --to goes back to a mark that 'sandbox mark' has set.",
		Args: checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.undoOrRedo(cmd.Context(), "undo", o, args)
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.AbortOpen, "abort", false, "end a command that is running and roll back what it did so far")
	return cmd
}

// undoOptions are the flags of undo and redo.
type undoOptions struct {
	api.UndoRequest
	group bool // args[0] is a run
}

func (o *undoOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.Force, "force", false, "overwrite edits made outside the sandbox")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only print what would change")
	cmd.Flags().BoolVar(&o.group, "group", false, "all steps of an agent's run, or none: the newest run, or that with this ID")
	cmd.Flags().BoolVar(&o.OnlyFolder, "only-folder", false, "leave alone what the same steps changed in other folders")
	cmd.Flags().StringVar(&o.To, "to", "", "all steps up to this `mark`, or none")
}

// request reads the argument.
func (o undoOptions) request(args []string) (r api.UndoRequest, err error) {
	r = o.UndoRequest
	n, what := 1, "number of steps"
	if o.group {
		n, what = int(undolog.NewestGroup), "run: 'sandbox history' shows them, as [run 12]"
	}
	if len(args) == 1 {
		if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
			return r, console.Usagef("%q is not a %s", args[0], what)
		}
	}
	switch {
	case r.AbortOpen && (o.group || r.To != ""):
		return r, console.Usagef("--group and --to cannot end a command that runs: say 'sandbox undo --abort' first")
	case r.To != "" && (o.group || len(args) > 0):
		return r, console.Usagef("--to %s says already which steps", r.To)
	case !o.group:
		r.Count = n
	default:
		r.Group = undolog.StepID(n)
	}
	return r, nil
}

func (a *app) undoOrRedo(ctx context.Context, word string, o undoOptions, args []string) error {
	r, err := o.request(args)
	if err != nil {
		return err
	}
	with := a.launch.WithService
	if r.DryRun {
		with = a.launch.Looking
	}
	return with(ctx, func(s api.Service, d api.Directory) error {
		do, done, doing := a.launch.Undo, "undone", "undoing"
		if word == "redo" {
			do, done, doing = a.launch.Redo, redone, "redoing"
		}
		line := console.ProgressOn(a.stderr, doing, console.ProgressPaths)
		r.Progress = line.Report
		var res api.UndoResult
		err := uncut(a.stderr, "the "+word, func() (err error) {
			res, err = do(ctx, s, d, r)
			return err
		})
		line.End()
		if err != nil {
			return err
		}
		return a.printUndo(done, res)
	})
}

// markCommand names points in the history.
func (a *app) markCommand() *cobra.Command {
	var r api.MarkRequest
	cmd := &cobra.Command{
		Use:   "mark [NAME]",
		Short: "Name this point of the history, for 'sandbox undo --to NAME', or list the marks",
		Long: "Name this point of the history: 'sandbox undo --to NAME' undoes all that came after it. Without a name, list the marks.\n\n" +
			"A mark can be set while no command runs, and only from outside of the sandbox. There may be 256.",
		Args: checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if launch.InsideSocket() != "" {
				return &console.Error{Code: console.Ours, Err: errors.New("marks are set from outside: what runs in a sandbox may only begin and end its own steps")}
			}
			if len(args) == 0 && r.Delete {
				return console.Usagef("--delete needs the name of a mark")
			}
			if len(args) == 1 {
				if r.Name = args[0]; r.Name == "" {
					return console.Usagef("a mark needs a name")
				}
			}
			return a.launch.Looking(cmd.Context(), func(s api.Service, d api.Directory) error {
				r.Directory = d.Path
				list, err := a.launch.Mark(cmd.Context(), s, d, r)
				switch {
				case err != nil:
					return err
				case a.flags.json:
					return a.out.JSON(api.OrEmpty(list))
				case r.Name != "":
					return nil
				}
				return a.out.Table(func(w io.Writer) {
					fmt.Fprintln(w, "MARK\tSET\tAFTER STEP\t")
					for _, m := range list {
						fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", m.Name, console.Ago(m.At, time.Now()), m.After, m.Lost)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&r.Delete, "delete", false, "take the mark away; no step is changed")
	return cmd
}

// redone is what a step is after a redo.
const redone = "redone"

// printUndo reports an undo, a redo or a restore.
func (a *app) printUndo(done string, res api.UndoResult) error {
	if a.flags.json {
		res.Paths = api.OrEmpty(res.Paths)
		for i := range res.Steps {
			res.Steps[i].Barriers = api.OrEmpty(res.Steps[i].Barriers)
		}
		if err := a.out.JSON(res); err != nil {
			return err
		}
		return leftStatus(res)
	}
	a.printUndone(done, res, len(res.Also) > 0)
	return leftStatus(res)
}

// leftStatus is the exit status of an undo that had to leave something. The times of somebody else's files, which
// nobody but them can set, do not count.
func leftStatus(res api.UndoResult) error {
	for _, x := range res.Left {
		if x.What != "times" && !res.DryRun {
			return &console.Error{Code: console.Left}
		}
	}
	for _, other := range res.Also {
		if err := leftStatus(other); err != nil {
			return err
		}
	}
	return nil
}

// printLeft names what was left, and says how to get it back.
func (a *app) printLeft(res api.UndoResult) {
	how, later := "left as it is", false
	if res.DryRun {
		how = "would be left as it is"
	}
	for _, x := range res.Left {
		fmt.Fprintf(a.stderr, "%s: %s (%s): %s\n", how, console.Shown(x.Path), x.What, x.Reason)
		later = later || x.What != "times" && x.What != "owner" && !x.NotKept
	}
	if n := res.LeftCount - len(res.Left); n > 0 {
		fmt.Fprintf(a.stderr, "and %d more\n", n)
	}
	if later && !res.DryRun {
		fmt.Fprintln(a.stderr, "When nothing hinders that any more, 'sandbox undo' puts it back; 'sandbox history' lists it. 'sandbox undo --force' goes past it.")
	}
}

// printUndone prints what was done in one folder; also: there are others.
func (a *app) printUndone(done string, res api.UndoResult, also bool) {
	for _, w := range res.Warnings {
		fmt.Fprintln(a.stderr, "warning: "+w)
	}
	how := done
	if res.DryRun {
		how = "would be " + done
	}
	for _, e := range res.Steps {
		line := fmt.Sprintf("step %d %s", e.StepID, how)
		if e.Command != "" {
			line += ": " + console.OneLine(e.Command, 60)
		}
		fmt.Fprintln(a.out, line)
	}
	if res.DryRun || a.flags.verbose {
		most := undoPathsShown
		if a.flags.verbose {
			most = 0
		}
		console.Changes(a.out, a.paint, res.Paths, most)
	}
	verb := "put back"
	switch {
	case done == redone && res.DryRun:
		verb = "to change again"
	case done == redone:
		verb = "changed again"
	case res.DryRun:
		verb = "to put back"
	}
	if res.PathCount > 0 {
		where := ""
		if also {
			where = " in " + console.Shown(res.Directory)
		}
		fmt.Fprintf(a.out, "%s %s%s in %s\n", console.Paths(res.PathCount), verb, where, console.Took(res.Took))
	}
	a.printLeft(res)
	for _, other := range res.Also {
		a.printUndone(done, other, true)
	}
}

// uncut runs f, which no signal ends in the middle: half an undo is worse than a late one. The first signal
// is answered by a line on out.
func uncut(out io.Writer, what string, f func() error) error {
	signals, done := make(chan os.Signal, 8), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	var ended sync.WaitGroup
	ended.Go(func() {
		for told := false; ; {
			select {
			case <-signals:
				if !told {
					fmt.Fprintf(out, "sandbox: %s goes on to its end: half of it would leave the folder in between\n", what)
				}
				told = true
			case <-done:
				return
			}
		}
	})
	err := f()
	signal.Stop(signals)
	close(done)
	ended.Wait()
	return err
}
