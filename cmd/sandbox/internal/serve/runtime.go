package serve

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b"
	"github.com/codeagent/sandbox/actors/frontend/runtimeapi"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// Runtime says how agent-sandbox's clients are served beside those of E2B: what the flags of 'sandbox serve' say.
type Runtime struct {
	Listen  string // HOST:PORT; empty: they are not
	Open    bool   // whoever reaches it may ask as long as there is no token
	Timeout time.Duration
}

// check says what is wrong with the flags; token is the file of a token that there is from the start.
func (r Runtime) check(token string) error {
	switch {
	case r.Listen == "" && r.Open:
		return console.Usagef("--runtime-open says who may ask at --runtime-listen: add that")
	case r.Timeout <= 0:
		return console.Usagef("--runtime-timeout %v: it has to be above 0", r.Timeout)
	case r.Open && token != "":
		return console.Usagef("--runtime-open lets in who has no token as long as there is none: with --access-token there always is one; leave one of them out")
	}
	return nil
}

// beside is the second listener of a server of one sandbox. Of its zero value nobody is served.
type beside struct {
	Runtime
	announce, log *slog.Logger
	l             net.Listener

	cancel context.CancelFunc // nil: it does not serve
	served sync.WaitGroup
	failed error
}

// listen listens where the flags say.
func (r Runtime) listen(o Options) (*beside, error) {
	b := &beside{Runtime: r, log: o.Launcher.Log}
	if r.Listen == "" {
		return b, nil
	}
	var err error
	if b.announce, err = console.NewLogger(o.Stderr, "info", o.Launcher.Conf.Log.Format); err != nil { // whatever the level
		return nil, err
	}
	// What lets a client in is a token, or the flag that says that reaching the listener is enough.
	b.l, err = web.Listen(web.Listening{Address: r.Listen, Flag: "--runtime-listen", Keys: true, Connections: runtimeapi.MaxConnections})
	return b, err
}

// serve serves the sandbox of a server until ctx ends, or close is called.
func (b *beside) serve(ctx context.Context, s *e2b.Server, live api.Live) error {
	if b.l == nil {
		return nil
	}
	server, err := runtimeapi.New(runtimeapi.Options{
		Live: live, Token: s.Token, Environ: s.Environ, History: s.History(), Open: b.Open, Timeout: b.Timeout, Logger: b.log,
	})
	if err != nil {
		return err
	}
	ctx, b.cancel = context.WithCancel(ctx)
	b.announce.Info("agent-sandbox's runtime API", "component", "runtime", "address", b.l.Addr().String(), "open", b.Open)
	b.served.Go(func() { b.failed = server.Serve(ctx, b.l) })
	return nil
}

// close ends it.
func (b *beside) close() error {
	switch {
	case b.l == nil:
		return nil
	case b.cancel == nil:
		return b.l.Close()
	}
	b.cancel()
	b.served.Wait()
	return b.failed
}
