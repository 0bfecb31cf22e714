package serve

import (
	"context"
	"net/http"

	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// mcpPath is where MCP is served.
const mcpPath = "/mcp"

// serveHTTP starts a session and serves clients over HTTP until ctx ends.
func (s *server) serveHTTP(ctx context.Context) error {
	opened, err := s.HTTP.Open(s.Launcher.Log)
	if err != nil {
		return err
	}
	defer opened.Listener.Close()
	announce, err := console.NewLogger(s.Stderr, "info", s.conf.Log.Format) // whatever the level
	if err != nil {
		return err
	}
	return s.serveMCP(ctx, func(ctx context.Context) error {
		clients := s.mcp.HTTP(mcp.HTTPOptions{Keys: opened.Keys})
		defer clients.Close()
		mux := http.NewServeMux()
		mux.Handle(mcpPath, clients)
		announce.Info("MCP over HTTP", "component", "mcp", "url", opened.URL()+mcpPath, "keys", opened.Keys != nil)
		return web.Serve(ctx, opened.Listener, mcp.CrossOrigin(opened.Access).Handler(mux), clients.Serving(s.Launcher.Log))
	})
}
