//go:build !linux

package gate

import (
	"errors"
	"os"
)

// Server answers one mount of a gate.
type Server struct{}

// Serve needs Linux.
func (g *Gate) Serve(dev *os.File, _ Mount) (*Server, error) {
	return nil, errors.Join(errors.New("gate: it needs Linux"), dev.Close())
}

// Wait returns.
func (s *Server) Wait() {}
