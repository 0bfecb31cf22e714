package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/progress"
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
			var version *undolog.VersionError
			if r.Discard && errors.As(err, &version) { // nothing else can be done with it
				if err := undolog.Discard(cmd.Context(), version.Dir); err != nil {
					return err
				}
				return a.printGC(undolog.GCResult{})
			}
			if err != nil {
				return err
			}
			doing := "compressing"
			if r.Discard {
				doing = "discarding"
			}
			line := progress.On(a.stderr, doing, progress.Bytes)
			r.Directory, r.Progress = d.Path, line.Report
			res, err := s.GC(cmd.Context(), r)
			line.End()
			if err = errors.Join(err, s.Close(cmd.Context())); err != nil {
				return err
			}
			return a.printGC(res)
		},
	}
	cmd.Flags().BoolVar(&r.CompressAll, "compress-all", false, "compress every step, the newest too")
	cmd.Flags().BoolVar(&r.Discard, "discard", false, "drop the whole history")
	return cmd
}

func (a *app) printGC(res undolog.GCResult) error {
	if a.flags.json {
		return a.out.JSON(res)
	}
	fmt.Fprintf(a.out, "%d steps dropped, %d compressed: %s before, %s now\n",
		len(res.Evicted), len(res.Compressed), format.Bytes(res.BytesBefore), format.Bytes(res.BytesAfter))
	return nil
}
