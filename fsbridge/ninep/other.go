//go:build !linux

package ninep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/codeagent/sandbox/fsbridge"
)

var errUnsupported = fmt.Errorf("ninep: %w on %s", errors.ErrUnsupported, runtime.GOOS)

// Server does not exist on this system: the tree behind it needs Linux so far.
type Server struct{}

var _ fsbridge.Bridge = (*Server)(nil)

// Serve fails with [errors.ErrUnsupported].
func Serve(conn io.ReadWriteCloser, o Options) (*Server, error) {
	conn.Close()
	return nil, errUnsupported
}

// Fence, Invalidate, Changed, HostPID, InFlight, Counts, Done, Err and Close
// are never reached.
func (s *Server) Fence(ctx context.Context) error     { return errUnsupported }
func (s *Server) Invalidate(c fsbridge.Changes) error { return errUnsupported }
func (s *Server) Changed(paths []string) error        { return errUnsupported }
func (s *Server) HostPID(pid uint32) (uint32, error)  { return 0, errUnsupported }
func (s *Server) InFlight() int                       { return 0 }
func (s *Server) Counts() map[string]uint64           { return nil }
func (s *Server) Done() <-chan struct{}               { return nil }
func (s *Server) Err() error                          { return errUnsupported }
func (s *Server) Close() error                        { return nil }
