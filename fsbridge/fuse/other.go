//go:build !linux

package fuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

var errUnsupported = fmt.Errorf("fuse: %w on %s", errors.ErrUnsupported, runtime.GOOS)

// Server does not exist on this system.
type Server struct{}

var _ fsbridge.Bridge = (*Server)(nil)

// ServeFile fails with [errors.ErrUnsupported].
func ServeFile(dev *os.File, o vfs.Options, touch fuseproto.TouchWaker) (*Server, error) {
	return nil, errUnsupported
}

// Fence, Invalidate, Changed, InFlight, Done and Close are never reached.
func (s *Server) Fence(ctx context.Context) error     { return errUnsupported }
func (s *Server) Invalidate(c fsbridge.Changes) error { return errUnsupported }
func (s *Server) Changed(paths []string) error        { return errUnsupported }
func (s *Server) InFlight() int                       { return 0 }
func (s *Server) Done() <-chan struct{}               { return nil }
func (s *Server) Close() error                        { return nil }
