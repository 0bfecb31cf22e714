package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/frontend/mcp"
)

func (a *app) mcpConnectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "connect SOCKET",
		Short: "Join an MCP client on stdin and stdout to the socket of a session",
		Args:  checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return mcp.Connect(ctx, path, "", a.stdin, a.stdout)
		},
	}
}
