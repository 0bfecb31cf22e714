package main

import (
	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
)

func (a *app) redoCommand() *cobra.Command {
	var r api.UndoRequest
	cmd := &cobra.Command{
		Use:   "redo [N]",
		Short: "Take back the newest undo, or the newest N",
		Args:  checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.undoOrRedo(cmd.Context(), "redo", r, args)
		},
	}
	undoFlags(cmd, &r)
	return cmd
}
