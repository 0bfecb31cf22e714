package remote

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Dial connects to a port of the guest's own loopback, as [hypervisor.Dialer] describes
// it, over a channel that passes descriptors. kind names the runtime in errors.
func Dial(ctx context.Context, h *control.Host, kind string, port uint16) (net.Conn, error) {
	f, err := h.Dial(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	defer f.Close() // the connection has a duplicate
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	style, family := 0, 0
	cerr := rc.Control(func(fd uintptr) {
		style, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
		if err == nil {
			family, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		}
	})
	if err = errors.Join(cerr, err); err == nil && (style != unix.SOCK_STREAM || family != unix.AF_INET && family != unix.AF_INET6) {
		err = errors.New("no TCP socket")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: what PID 1 says is a connection: %w", kind, err)
	}
	return net.FileConn(f)
}
