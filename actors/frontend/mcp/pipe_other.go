//go:build unix && !linux

package mcp

import "os"

func pipe() (r, w *os.File, err error) { return os.Pipe() }
