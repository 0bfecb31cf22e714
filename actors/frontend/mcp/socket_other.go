//go:build !linux

package mcp

import (
	"errors"
	"os"
)

func lockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
