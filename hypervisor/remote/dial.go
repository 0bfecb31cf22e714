package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/codeagent/sandbox/guest/control"
)

// Dial connects to a port of the guest's own loopback, as [hypervisor.Dialer] describes
// it. kind names the runtime in errors. Over a channel that passes descriptors the connection
// is the guest's; over another its bytes pass through the channel.
func Dial(ctx context.Context, h *control.Host, kind string, port uint16) (net.Conn, error) {
	f, err := h.Dial(ctx, port)
	if errors.Is(err, errors.ErrUnsupported) {
		s, err := h.Connect(ctx, port)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return stream{s}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return connection(f, kind)
}

// stream is a connection through the control channel.
type stream struct{ *control.Stream }

var errNoDeadline = fmt.Errorf("a connection through the control channel has no deadline: %w", os.ErrNoDeadline)

// LocalAddr implements [net.Conn]: there is none on this side.
func (stream) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements [net.Conn].
func (stream) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements [net.Conn]: there are none.
func (stream) SetDeadline(time.Time) error { return errNoDeadline }

// SetReadDeadline implements [net.Conn], as SetDeadline.
func (stream) SetReadDeadline(time.Time) error { return errNoDeadline }

// SetWriteDeadline implements [net.Conn], as SetDeadline.
func (stream) SetWriteDeadline(time.Time) error { return errNoDeadline }
