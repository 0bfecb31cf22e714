package serve

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/metrics"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// metricsConnections are served at a time: Prometheus needs one.
const metricsConnections = 16

// figures tell Prometheus what the sessions of this process do. The zero value tells nobody.
type figures struct{ all *metrics.Metrics }

// serve tells it where o says; the result ends that.
func (f *figures) serve(ctx context.Context, o Options) (func() error, error) {
	if o.Metrics == "" {
		return func() error { return nil }, nil
	}
	l, err := web.Listen(web.Listening{Address: o.Metrics, Flag: "--metrics", Public: true, Connections: metricsConnections})
	if err != nil {
		return nil, err
	}
	announce, err := console.NewLogger(o.Stderr, "info", o.Launcher.Conf.Log.Format) // whatever the level
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	f.all = metrics.New(metrics.Options{Version: o.Version})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", f.all.Handler())
	announce.Info("figures for Prometheus", "component", "metrics", "url", "http://"+l.Addr().String()+"/metrics")
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	var failed error
	served.Go(func() {
		failed = web.Serve(ctx, l, web.Access{Loopback: web.IsLoopback(l)}.Handler(mux), web.Serving{Logger: o.Launcher.Log})
	})
	return func() error { cancel(); served.Wait(); return failed }, nil
}

// start starts a session that has its part in them, behind the walls.
func (f *figures) start(ctx context.Context, w *launch.Walls, cfg api.Config, log *slog.Logger) (api.Live, error) {
	if f.all == nil {
		return w.Start(ctx, cfg, log)
	}
	cfg.Applied = f.all.Applied
	live, err := w.Start(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	leave := f.all.Join(live)
	go func() { <-live.Done(); leave() }()
	return live, nil
}
