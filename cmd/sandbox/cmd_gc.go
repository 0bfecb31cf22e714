package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func (a *app) gcCommand() *cobra.Command {
	var r api.GCRequest
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Drop steps beyond the limits and compress old ones",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, d, err := a.launch.Service(cmd.Context())
			if err != nil {
				return a.discardUnopened(cmd.Context(), r.Discard, d.UndoDir, err)
			}
			doing := "compressing"
			if r.Discard {
				doing = "discarding"
			}
			line := console.ProgressOn(a.stderr, doing, console.ProgressBytes)
			r.Directory, r.Progress = d.Path, line.Report
			res, err := s.GC(cmd.Context(), r)
			line.End()
			if err = errors.Join(err, s.Close(cmd.Context())); err != nil {
				return a.discardUnopened(cmd.Context(), r.Discard, d.UndoDir, err)
			}
			return a.printGC(res)
		},
	}
	cmd.Flags().BoolVar(&r.CompressAll, "compress-all", false, "compress every step, the newest too")
	cmd.Flags().BoolVar(&r.Discard, "discard", false, "drop the whole history")
	return cmd
}

// discardUnopened drops the log in dir, which cannot be used because of cause: of another version, damaged, in the
// middle of an undo. It says what it drops, and leaves the folder as it is.
func (a *app) discardUnopened(ctx context.Context, discard bool, dir string, cause error) error {
	var version *undolog.VersionError
	if errors.As(cause, &version) {
		dir = version.Dir
	}
	if !discard || dir == "" || console.IsUsage(cause) || errors.As(cause, new(*undolog.LockedError)) {
		return cause
	}
	was, err := undolog.Inspect(dir)
	if err == nil {
		err = undolog.Discard(ctx, dir)
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	fmt.Fprintln(a.stderr, "sandbox: the history could not be used: "+cause.Error())
	if was.Half != "" {
		fmt.Fprintf(a.stderr, "sandbox: an interrupted %s was dropped, too; the folder stays as it is, perhaps half done\n", was.Half)
	}
	if was.Open != 0 {
		fmt.Fprintln(a.stderr, "sandbox: the interrupted step was dropped, too; the folder stays as it is: "+console.OneLine(was.Command, 60))
	}
	return a.printGC(undolog.GCResult{Evicted: make([]undolog.StepID, was.Steps), Compressed: []undolog.StepID{}})
}

func (a *app) printGC(res undolog.GCResult) error {
	if a.flags.json {
		return a.out.JSON(res)
	}
	fmt.Fprintf(a.out, "%d steps dropped, %d compressed: %s before, %s now\n",
		len(res.Evicted), len(res.Compressed), console.Bytes(res.BytesBefore), console.Bytes(res.BytesAfter))
	return nil
}
