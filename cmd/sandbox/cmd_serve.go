package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/serve"
	"github.com/codeagent/sandbox/hypervisor/inherit"
)

type serveOptions struct {
	protocol string
	ui       bool
	uiPort   int
	part     bool
	http     web.Settings
	metrics  string
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --protocol stdio|mcp",
		Short: "Let another program drive a session over stdin and stdout",
		Long: "Let another program drive a session over stdin and stdout: by JSON lines (stdio), where session.start starts it,\n" +
			"or by the Model Context Protocol (mcp), where it starts at once. --mcp-socket serves MCP clients beside that,\n" +
			"--ui the page of 'sandbox ui'. The page's address is in a file that only you can read; the log names it.\n" +
			"With --listen MCP is served over HTTP in the place of stdin and stdout, for any number of clients of one session.\n" +
			"An address that other machines reach needs --keys.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("ui-port") && !o.ui {
				return console.Usagef("--ui-port says where the page is served: add --ui")
			}
			if name := changed(cmd, listenFlags); name != "" && o.http.Address == "" {
				return console.Usagef("--%s is about a listener: add --listen", name)
			}
			return a.serve(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.protocol, "protocol", "stdio", "stdio or mcp")
	cmd.Flags().BoolVar(&o.ui, "ui", false, "serve the page for this machine's browser, too")
	cmd.Flags().IntVar(&o.uiPort, "ui-port", 0, "the port of 127.0.0.1 for it; 0: a free one")
	addListenFlags(cmd, &o.http)
	cmd.Flags().StringVar(&o.metrics, "metrics", "", "tell Prometheus figures at this address (HOST:PORT), path /metrics")
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
	if o.http.Address != "" && o.protocol != "mcp" {
		return console.Usagef("--listen: --protocol %s is spoken over stdin and stdout: use --protocol mcp", o.protocol)
	}
	env, err := inherit.VariablesOfCommand(os.Environ(), nil)
	if err != nil {
		return err
	}
	return serve.Run(ctx, serve.Options{
		Protocol: o.protocol, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Launcher: a.launch, Base: a.base, Flags: a.keyFlags, ConfigFile: a.flags.configFile, Env: env, Version: version, UI: o.ui, UIPort: o.uiPort,
		Again: a.again("serve", "--part"), Part: o.part, HTTP: o.http, Metrics: o.metrics,
	})
}

// listenFlags are the flags that only a listener has, beside its address.
var listenFlags = []string{"keys", "tls-cert", "tls-key", "allow-origin", "server-name"}

// addListenFlags adds the flags of a listener for HTTP, which are the same for each protocol.
func addListenFlags(cmd *cobra.Command, s *web.Settings) {
	f := cmd.Flags()
	f.StringVar(&s.Address, "listen", "", "serve over HTTP at this address (HOST:PORT)")
	f.StringVar(&s.Keys, "keys", "", "file with a key a line, of which clients must show one")
	f.StringVar(&s.Certificate, "tls-cert", "", "file with the certificate for TLS (PEM)")
	f.StringVar(&s.CertificateKey, "tls-key", "", "file with the certificate's private key (PEM)")
	f.StringArrayVar(&s.Origins, "allow-origin", nil, "origin of a web page that may ask, as https://example.org (repeatable)")
	f.StringArrayVar(&s.Hosts, "server-name", nil, "another name by which the listener is reached (repeatable)")
}

// changed returns the first of some flags that was given, or "".
func changed(cmd *cobra.Command, names []string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}
