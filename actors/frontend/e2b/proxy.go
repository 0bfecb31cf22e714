package e2b

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// dialTimeout bounds how long a program inside has to take a connection.
const dialTimeout = 10 * time.Second

// forward passes a request on to a port inside, WebSockets as well. The program there is told the name that the client has used.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, live api.Live, port uint16) error {
	ctx, _, end, err := s.begin(r, live)
	if err != nil {
		return err
	}
	defer end()
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(int(port)))}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host
			for _, name := range []string{"X-Access-Token", "X-Api-Key", "E2b-Sandbox-Id", "E2b-Sandbox-Port", "E2b-Traffic-Access-Token"} {
				p.Out.Header.Del(name) // it is not for programs inside
			}
			p.SetXForwarded()
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialTimeout)
				defer cancel()
				return live.Dial(ctx, port)
			},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			s.o.Logger.Debug("a port inside", "component", "e2b", "port", port, "err", err)
			if errors.Is(err, errors.ErrUnsupported) {
				answerError(w, wire.Fail(http.StatusNotImplemented, "%s", err))
				return
			}
			answerError(w, wire.Fail(wire.StatusGone, "no program answers at port %d of the sandbox", port))
		},
	}
	w.Header().Del("X-Content-Type-Options") // that is the program's own business
	r = r.WithContext(ctx)
	proxy.ServeHTTP(w, r)
	return nil
}
