package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
)

func (a *app) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "diff [STEP]",
		Annotations: takesStep(),
		Short:       "Print what a step changed (default: everything that can be undone) as a unified diff",
		Args:        checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			step, err := stepArg(args)
			if err != nil {
				return err
			}
			return a.launch.Looking(cmd.Context(), func(s api.Service, d api.Directory) error {
				r := api.StepRequest{Directory: d.Path, Step: step}
				if !a.flags.json {
					return a.out.Contents(func(w io.Writer) error { return s.Diff(cmd.Context(), r, w) })
				}
				var text strings.Builder
				if err := s.Diff(cmd.Context(), r, &text); err != nil {
					return err
				}
				return a.out.JSON(map[string]string{"diff": text.String()})
			})
		},
	}
}
