//go:build !linux

package control

import (
	"errors"
	"os"
)

// SocketPair is for the Linux jail only.
func SocketPair() (a, b *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// NewFDConn is for the Linux jail only.
func NewFDConn(*os.File) (FDConn, error) { return nil, errors.ErrUnsupported }

func setTerminalSize(*os.File, uint16, uint16) error { return errors.ErrUnsupported }

func asTerminal(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
