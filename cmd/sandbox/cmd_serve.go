package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/frontend/runtimeapi"
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
	e2b      serve.E2B
}

// e2bFlags are those of the protocol e2b alone.
func e2bFlags() []string {
	return []string{"role", "access-token", "sandboxes", "domain", "template", "runtime-listen", "runtime-open", "runtime-timeout"}
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --protocol stdio|mcp|e2b",
		Short: "Let another program drive a session over stdin and stdout, or sandboxes over HTTP",
		Long: "Let another program drive a session over stdin and stdout: by JSON lines (stdio), where session.start starts it,\n" +
			"or by the Model Context Protocol (mcp), where it starts at once. --mcp-socket serves MCP clients beside that,\n" +
			"--ui the page of 'sandbox ui'. The page's address is in a file that only you can read; the log names it.\n" +
			"With --listen MCP is served over HTTP in the place of stdin and stdout, for any number of clients of one session.\n" +
			"An address that other machines reach needs --keys.\n\n" +
			"The protocol e2b is that of E2B's SDK, over HTTP (docs/e2b.md). With --role api clients make sandboxes, each with a folder and\n" +
			"a session of its own; with --role envd they use one session of the working folders, as in a pod.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("ui-port") && !o.ui {
				return console.Usagef("--ui-port says where the page is served: add --ui")
			}
			o.http.Address = a.conf.Serve.Listen
			if o.protocol == "stdio" && !cmd.Flags().Changed("listen") {
				o.http.Address = "" // what a file says is about the others
			}
			if name := changed(cmd, listenFlags); name != "" && o.http.Address == "" && o.protocol != "e2b" {
				return console.Usagef("--%s is about a listener: add --listen", name)
			}
			if name := changed(cmd, []string{"allow-origin", "server-name"}); name != "" && o.protocol == "e2b" {
				return console.Usagef("--%s: no web page may use the protocol e2b, and it is reached by the names that --domain says", name)
			}
			if name := changed(cmd, e2bFlags()); name != "" && o.protocol != "e2b" {
				return console.Usagef("--%s is for --protocol e2b", name)
			}
			return a.serve(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.protocol, "protocol", "stdio", "stdio, mcp or e2b")
	cmd.Flags().BoolVar(&o.ui, "ui", false, "serve the page for this machine's browser, too")
	cmd.Flags().IntVar(&o.uiPort, "ui-port", 0, "the port of 127.0.0.1 for it; 0: a free one")
	addListenFlags(cmd, &o.http)
	cmd.Flags().StringVar(&o.e2b.Role, "role", serve.RoleAPI, "of the protocol e2b: api (clients make sandboxes) or envd (there is one)")
	cmd.Flags().StringVar(&o.e2b.Token, "access-token", "", "a `file` with the token that clients have to send with --role envd (X-Access-Token); without it POST /init gives one")
	cmd.Flags().StringVar(&o.e2b.Dir, "sandboxes", "", "the `directory` of sandboxes, snapshots and templates (default below the user's state)")
	cmd.Flags().StringVar(&o.e2b.Domain, "domain", "", "ports of a sandbox are reached at PORT-ID.`DOMAIN`")
	cmd.Flags().StringArrayVar(&o.e2b.Templates, "template", nil, "a folder that sandboxes are copies of, `NAME=DIR`; may be given several times")
	cmd.Flags().StringVar(&o.e2b.Runtime.Listen, "runtime-listen", "", "with --role envd, serve agent-sandbox's clients, too, at this address (HOST:PORT; they expect port 8888)")
	cmd.Flags().BoolVar(&o.e2b.Runtime.Open, "runtime-open", false, "whoever reaches that address may ask as long as there is no token")
	cmd.Flags().DurationVar(&o.e2b.Runtime.Timeout, "runtime-timeout", runtimeapi.DefaultTimeout, "how long a command of theirs may run")
	cmd.Flags().BoolVar(&o.part, "part", false, "")
	_ = cmd.Flags().MarkHidden("part") // as the next, it fails only for a flag that is not there
	// They fail only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(protocols(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{serve.RoleAPI, serve.RoleEnvd}, cobra.ShellCompDirectiveNoFileComp))
	a.addKeyFlags(cmd, a.sessionFlags...)
	a.addKeyFlags(cmd, serveFlags...)
	return cmd
}

func protocols() []string { return []string{"stdio", "mcp", "e2b"} }

func (a *app) serve(ctx context.Context, o serveOptions) error {
	if o.http.Address != "" && o.protocol == "stdio" {
		return console.Usagef("--listen: --protocol %s is spoken over stdin and stdout: use --protocol mcp or e2b", o.protocol)
	}
	env, err := inherit.VariablesOfCommand(os.Environ(), nil)
	if err != nil {
		return err
	}
	options := serve.Options{
		Protocol: o.protocol, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Launcher: a.launch, Base: a.base, Flags: a.keyFlags, ConfigFile: a.flags.configFile, Env: env, Version: version, UI: o.ui, UIPort: o.uiPort,
		Again: a.again("serve", "--part"), Part: o.part, HTTP: o.http, Metrics: a.conf.Serve.Metrics,
	}
	switch o.protocol {
	case "stdio", "mcp":
		return serve.Run(ctx, options)
	case "e2b":
		if o.ui || a.conf.MCP.Socket != "" {
			return console.Usagef("--ui and --mcp-socket serve one session: they do not go with --protocol e2b; 'sandbox ui' shows its sandboxes")
		}
		return serve.RunE2B(ctx, options, o.e2b)
	}
	return console.Usagef("--protocol: %q is not one of %s", o.protocol, strings.Join(protocols(), ", "))
}

// listenFlags are the flags that only a listener has, beside its address.
var listenFlags = []string{"keys", "tls-cert", "tls-key", "allow-origin", "server-name"}

// addListenFlags adds the flags of a listener for HTTP, beside its address, which are the same for each protocol.
func addListenFlags(cmd *cobra.Command, s *web.Settings) {
	f := cmd.Flags()
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
