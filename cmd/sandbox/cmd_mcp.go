package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Connect an MCP client to a session",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "install" || args[0] == "uninstall") { // until this version they were here
				return console.Usagef("it is 'sandbox %s'", args[0])
			}
			return checkArgs(cobra.NoArgs)(cmd, args)
		},
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // of those two
		RunE:               func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.mcpConnectCommand())
	return cmd
}

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
			ctx, stop := signal.NotifyContext(cmd.Context(), console.HeededSignals(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)...)
			defer stop()
			return mcp.Connect(ctx, path, "", a.stdin, a.stdout)
		},
	}
}
