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
	silent := &problem{http.StatusNotImplemented, "unsupported", "this session tells nothing of its network", "it was started by an older version: start it again"}
	n, ok := c.(api.Networked)
	if !ok {
		return nil, silent
	}
	st, err := n.Network(r.Context())
	if older(err) {
		return nil, silent
	}
	return st, err
}

// older tells whether err is that of a session of an older version, which does not know what it was asked.
func older(err error) bool {
	e := (*control.Error)(nil)
	return errors.As(err, &e) && e.Code == control.CodeUnknownMethod
}
