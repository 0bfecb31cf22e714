//go:build !linux

package socket

import (
	"errors"
	"net"
)

// Credentials is not known here.
func Credentials(*net.UnixConn) (uid, pid int, err error) { return -1, 0, errors.ErrUnsupported }
