package ui

import (
	"errors"
	"net/http"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/control"
)

// network is what a session's commands are connected to, and what they were refused.
func (s *Server) network(r *http.Request) (any, error) {
	c, err := s.session(r, r.PathValue("session"))
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	older := &problem{http.StatusNotImplemented, "unsupported", "this session tells nothing of its network", "it was started by an older version: start it again"}
	n, ok := c.(api.Networked)
	if !ok {
		return nil, older
	}
	st, err := n.Network(r.Context())
	if e := (*control.Error)(nil); errors.As(err, &e) && e.Code == control.CodeUnknownMethod {
		return nil, older
	}
	return st, err
}
