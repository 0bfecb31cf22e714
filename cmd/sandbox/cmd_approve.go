package main

import "github.com/spf13/cobra"

func (a *app) approveCommand() *cobra.Command {
	return a.decideCommand("approve", "Let a held operation go on", true)
}
