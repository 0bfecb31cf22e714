//go:build !linux

package mediate

import (
	"errors"
	"net/netip"
	"os"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Server is for Linux only.
type Server struct{}

// New makes a server that cannot serve.
func New(Options) *Server { return &Server{} }

// Folder is for Linux only.
type Folder struct{ fsbridge.Bridge }

// Bare does nothing.
func (*Folder) Bare() {}

// Add returns errors.ErrUnsupported.
func (*Server) Add(view, grants *os.File, _ vfs.Options) (*Folder, error) {
	err := errors.Join(errors.ErrUnsupported, view.Close())
	if grants != nil {
		err = errors.Join(err, grants.Close())
	}
	return nil, err
}

// Serve returns errors.ErrUnsupported.
func (*Server) Serve(g Guest) error {
	return errors.Join(errors.ErrUnsupported, g.Close())
}

// Listens is false: there are no guests.
func (*Server) Listens(uint16) (netip.AddrPort, bool) { return netip.AddrPort{}, false }

// Figures are none.
func (*Server) Figures() figures { return figures{} }

// Done is closed: nothing was ever served.
func (*Server) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Close does nothing.
func (*Server) Close() error { return nil }
