package remote

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// connection is what a guest has sent as a connection, which it takes over.
func connection(f *os.File, kind string) (net.Conn, error) {
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
