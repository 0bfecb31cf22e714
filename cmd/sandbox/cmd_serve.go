package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/serve"
	"github.com/codeagent/sandbox/hypervisor/inherit"
)

type serveOptions struct {
	protocol string
	ui       bool
	uiPort   int
	part     bool
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --protocol stdio|mcp",
		Short: "Let another program drive a session over stdin and stdout",
		Long: "Let another program drive a session over stdin and stdout: by JSON lines (stdio), where session.start starts it,\n" +
			"or by the Model Context Protocol (mcp), where it starts at once. --mcp-socket serves MCP clients beside that,\n" +
			"--ui the page of 'sandbox ui'. The page's address is in a file that only you can read; the log names it.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("ui-port") && !o.ui {
				return console.Usagef("--ui-port says where the page is served: add --ui")
			}
			return a.serve(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.protocol, "protocol", "stdio", "stdio or mcp")
	cmd.Flags().BoolVar(&o.ui, "ui", false, "serve the page for this machine's browser, too")
	cmd.Flags().IntVar(&o.uiPort, "ui-port", 0, "the port of 127.0.0.1 for it; 0: a free one")
	cmd.Flags().BoolVar(&o.part, "part", false, "")
	_ = cmd.Flags().MarkHidden("part") // as the next, it fails only for a flag that is not there
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"stdio", "mcp"}, cobra.ShellCompDirectiveNoFileComp))
	a.addKeyFlags(cmd, a.sessionFlags...)
	a.addKeyFlags(cmd, serveFlags...)
	return cmd
}

func (a *app) serve(ctx context.Context, o serveOptions) error {
	if o.protocol != "stdio" && o.protocol != "mcp" {
		return console.Usagef("--protocol: %q is not one of stdio, mcp", o.protocol)
	}
	env, err := inherit.VariablesOfCommand(os.Environ(), nil)
	if err != nil {
		return err
	}
	return serve.Run(ctx, serve.Options{
		Protocol: o.protocol, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Launcher: a.launch, Base: a.base, Flags: a.keyFlags, ConfigFile: a.flags.configFile, Env: env, Version: version, UI: o.ui, UIPort: o.uiPort,
		Again: a.again("serve", "--part"), Part: o.part,
	})
}
