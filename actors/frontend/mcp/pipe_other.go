//go:build unix && !linux

package mcp

import "os"

func pipe() (r, w *os.File, err error) { return os.Pipe() }

// asNew is about commands that run in a jail.
func asNew(*os.File) bool { return false }
