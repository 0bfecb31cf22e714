package e2b

import (
	"net/http"
)

// What another listener of the same process needs that serves the one sandbox of [Options.Live], too. These methods are for a server with that option.

// Token is what clients have to send (X-Access-Token). It is empty as long as there is none.
func (s *Server) Token() string {
	s.pod.mu.Lock()
	defer s.pod.mu.Unlock()
	return s.pod.token
}

// Environ are the variables of a command, with those that POST /init has given.
func (s *Server) Environ() ([]string, error) { return s.pod.environ(nil) }

// History returns what answers our own requests about the history, at /undo and so on as here at /sandboxes/ID/undo. It returns false if a request is no such one, and has done nothing then. Whoever calls it has let the request in.
func (s *Server) History() func(w http.ResponseWriter, r *http.Request) bool {
	m := http.NewServeMux()
	s.routesOwn(m, func(*http.Request) (*place, error) { return s.pod, nil })
	return func(w http.ResponseWriter, r *http.Request) bool {
		inner := r.Clone(r.Context())
		inner.URL.Path, inner.URL.RawPath = "/sandboxes/this"+r.URL.Path, ""
		if _, pattern := m.Handler(inner); pattern == "" {
			return false
		}
		m.ServeHTTP(w, inner)
		return true
	}
}
