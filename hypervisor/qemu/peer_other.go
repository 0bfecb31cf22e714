//go:build !windows

package qemu

import (
	"errors"
	"net"
)

// fromProcess is for connections over the loopback, which there are on Windows alone.
func fromProcess(net.Conn, int) error { return errors.ErrUnsupported }
