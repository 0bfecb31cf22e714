//go:build unix

package socket

import (
	"context"
	"errors"
	"net"
	"os"
)

type (
	// Conn is a connection to a session.
	Conn = net.UnixConn
	// Listener is where a session is reached.
	Listener = net.UnixListener
)

// Dial connects.
func Dial(ctx context.Context, path string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return c.(*Conn), nil
}

// IsSocket tells whether what is at a path can be what [Listen] has left there.
func IsSocket(info os.FileInfo) bool { return info.Mode().Type() == os.ModeSocket }

// Listen makes a socket with mode 0600 in place of what is at path, which the
// caller has looked at. Closing the listener leaves the name.
func Listen(path string) (*Listener, error) {
	unready := path + Unready
	if err := os.Remove(unready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: unready, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(unready, 0o600); err == nil {
		err = os.Rename(unready, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(unready))
	}
	return l, nil
}
