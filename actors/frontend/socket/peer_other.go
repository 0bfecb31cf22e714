//go:build !linux

package socket

import (
	"errors"
	"net"
)

func peerUID(*net.UnixConn) (int, error) { return -1, errors.ErrUnsupported }
