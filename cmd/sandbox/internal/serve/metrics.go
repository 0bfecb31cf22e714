package serve

import (
	"context"
	"net/http"
	"sync"

	"github.com/codeagent/sandbox/actors/frontend/metrics"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// metricsConnections are served at a time: Prometheus needs one.
const metricsConnections = 16

// serveMetrics tells Prometheus what the sessions do; the result ends that.
func (s *server) serveMetrics(ctx context.Context) (func() error, error) {
	if s.Metrics == "" {
		return func() error { return nil }, nil
	}
	l, err := web.Listen(web.Listening{Address: s.Metrics, Flag: "--metrics", Public: true, Connections: metricsConnections})
	if err != nil {
		return nil, err
	}
	announce, err := console.NewLogger(s.Stderr, "info", s.conf.Log.Format) // whatever the level
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	s.metrics = metrics.New(metrics.Options{Version: s.Version})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.Handler())
	announce.Info("figures for Prometheus", "component", "metrics", "url", "http://"+l.Addr().String()+"/metrics")
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	var failed error
	served.Go(func() {
		failed = web.Serve(ctx, l, web.Access{Loopback: web.IsLoopback(l)}.Handler(mux), web.Serving{Logger: s.Launcher.Log})
	})
	return func() error { cancel(); served.Wait(); return failed }, nil
}
