package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/frontend/gateway"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// gatewayConnections are served at a time: most are streams of commands, and take little.
const gatewayConnections = 4096

// maxSecretFile bounds the file with the secret of the tokens.
const maxSecretFile = 4 << 10

type gatewayOptions struct {
	engine string
	listen web.Settings
	secret string
	domain string
	port   uint16
	ready  time.Duration
	kube   kube.Config
}

func (a *app) gatewayCommand() *cobra.Command {
	var o gatewayOptions
	cmd := &cobra.Command{
		Use:   "gateway --engine kubernetes --listen HOST:PORT --keys FILE --secret FILE",
		Short: "Give programs that use E2B's SDK sandboxes in a Kubernetes cluster",
		Long: "Give programs that use E2B's SDK sandboxes in a Kubernetes cluster with agent-sandbox: its REST API is answered by\n" +
			"claims, and commands, files and ports are passed on to the pods. In --keys each key has the name of its tenant's\n" +
			"namespace behind it. --secret is what the sandboxes' tokens are made of: the same for all replicas.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gateway(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.engine, "engine", "kubernetes", "what has the sandboxes: kubernetes")
	cmd.Flags().StringVar(&o.listen.Address, "listen", "", "serve over HTTP at this address (HOST:PORT)")
	addListenFlags(cmd, &o.listen)
	f.StringVar(&o.secret, "secret", "", "file with the secret of the sandboxes' tokens, of 32 bytes or more")
	f.StringVar(&o.domain, "domain", "", "domain below which host names PORT-ID.DOMAIN lead to ports of sandboxes")
	f.Uint16Var(&o.port, "pod-port", gateway.EnvdPort, "port that the pods listen at")
	f.DurationVar(&o.ready, "ready-timeout", gateway.DefaultReady, "how long a sandbox may take to start")
	f.StringVar(&o.kube.Server, "kube-server", "", "address of the API server; default: that of the pod's cluster")
	f.StringVar(&o.kube.TokenFile, "kube-token", "", "file with the token for it; default: the pod's service account")
	f.StringVar(&o.kube.CAFile, "kube-ca", "", "file with the certificates of its issuer (PEM); default: the pod's service account")
	return cmd
}

func (a *app) gateway(ctx context.Context, o gatewayOptions) error {
	switch {
	case o.engine != "kubernetes":
		return console.Usagef("--engine: %q is not kubernetes", o.engine)
	case o.listen.Address == "":
		return console.Usagef("say where to listen: --listen HOST:PORT")
	case o.listen.Keys == "":
		return console.Usagef("say whose sandboxes there are: --keys FILE, with a key and the name of a namespace in each line")
	case o.secret == "":
		return console.Usagef("say what the sandboxes' tokens are made of: --secret FILE; openssl rand -hex 32 makes one")
	case o.ready <= 0:
		return console.Usagef("--ready-timeout must be positive")
	}
	secret, err := web.ReadPrivate(o.secret, maxSecretFile)
	if err != nil {
		return fmt.Errorf("--secret: %w", err)
	}
	config, err := o.kube.InCluster(os.Getenv)
	if err != nil {
		return err
	}
	client, err := kube.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	o.listen.Connections = gatewayConnections
	opened, err := o.listen.Open(a.log)
	if err != nil {
		return err
	}
	defer opened.Listener.Close()
	g, err := gateway.New(gateway.Options{
		Kube: client, Keys: opened.Keys, Secret: bytes.TrimSpace(secret), Domain: o.domain, PodPort: o.port, Ready: o.ready, Access: opened.Access, Logger: a.log.With("component", "gateway"),
	})
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	a.log.Info("the gateway listens", "component", "gateway", "url", opened.URL())
	return g.Serve(ctx, opened.Listener)
}
