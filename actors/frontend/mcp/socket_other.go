//go:build !linux

package mcp

import (
	"errors"
	"net"
	"os"
)

func peerUID(*net.UnixConn) (int, error) { return -1, errors.ErrUnsupported }

func lockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
