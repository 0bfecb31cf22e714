package main

import "github.com/spf13/cobra"

func (a *app) denyCommand() *cobra.Command {
	return a.decideCommand("deny", "Refuse a held operation and roll its step back; a connection is only refused", false)
}
