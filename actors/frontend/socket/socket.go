package socket

import (
	"errors"
	"net"
	"os"
)

// Unready is what a socket's name ends with until somebody listens there: one that
// refuses a connection is that of a process that is gone.
const Unready = ".new"

// Listen makes a socket with mode 0600 in place of what is at path, which the
// caller has looked at. Closing the listener leaves the name.
func Listen(path string) (*net.UnixListener, error) {
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

// Peer returns the user id of the process that connected, and whether it may: it
// must be this process's user, or root.
func Peer(conn *net.UnixConn) (uid int, allowed bool, err error) {
	uid, _, err = Credentials(conn)
	return uid, err == nil && (uid == 0 || uid == os.Getuid()), err
}
