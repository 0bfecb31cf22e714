package main

import (
	"github.com/spf13/cobra"
)

func (a *app) redoCommand() *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:   "redo [N | --group [ID] | --to MARK]",
		Short: "Take back the newest undo, or the newest N",
		Args:  checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.undoOrRedo(cmd.Context(), "redo", o, args)
		},
	}
	o.flags(cmd)
	return cmd
}
