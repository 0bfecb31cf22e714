//go:build !linux

package virtiofs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/codeagent/sandbox/fsbridge"
)

var errUnsupported = fmt.Errorf("virtiofs: %w on %s", errors.ErrUnsupported, runtime.GOOS)

// Server does not exist on this system.
type Server struct{}

var _ fsbridge.Bridge = (*Server)(nil)

// Listen fails with [errors.ErrUnsupported].
func Listen(path string, o Options) (*Server, error) { return nil, errUnsupported }

// ServeFile fails with [errors.ErrUnsupported].
func ServeFile(conn *os.File, o Options) (*Server, error) { return nil, errUnsupported }

// Fence, Invalidate, Changed, HostPID, InFlight, Done, Err and Close are never
// reached.
func (s *Server) Fence(ctx context.Context) error     { return errUnsupported }
func (s *Server) Invalidate(c fsbridge.Changes) error { return errUnsupported }
func (s *Server) Changed(paths []string) error        { return errUnsupported }
func (s *Server) HostPID(pid uint32) (uint32, error)  { return 0, errUnsupported }
func (s *Server) InFlight() int                       { return 0 }
func (s *Server) Done() <-chan struct{}               { return nil }
func (s *Server) Err() error                          { return errUnsupported }
func (s *Server) Close() error                        { return nil }
