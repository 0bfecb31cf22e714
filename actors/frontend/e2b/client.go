package e2b

import (
	"context"
	"net"
	"net/http"

	"github.com/codeagent/sandbox/actors/api"
)

// frontendName is what we are called in events, logs and the tree of actors.
const frontendName = "e2b"

// connected makes the client of a new connection.
func (s *Server) connected(ctx context.Context, conn net.Conn) context.Context {
	return s.clients.Connected(ctx, conn)
}

// connection hears of the end of connections.
func (s *Server) connection(conn net.Conn, state http.ConnState) { s.clients.State(conn, state) }

// begin says that a call is carried out in a session. Its context ends with end, with the request, and when the connection's actor crashes.
func (s *Server) begin(r *http.Request, live api.Live) (ctx context.Context, id string, end func(), err error) {
	return s.clients.Begin(r, live)
}

// origin is who asks, for events, logs and the audit.
func origin(id, tool string) api.Origin {
	return api.Origin{Frontend: frontendName, RequestID: id, Tool: tool}
}

// ended tells whether a session is over.
func ended(live api.Live) bool {
	select {
	case <-live.Done():
		return true
	default:
		return false
	}
}
