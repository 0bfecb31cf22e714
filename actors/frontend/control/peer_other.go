//go:build !linux

package control

import (
	"errors"
	"net"
)

func peerUID(*net.UnixConn) (int, error) { return -1, errors.ErrUnsupported }
