//go:build !unix

package mcp

import (
	"io"
	"os"
)

// readNow does nothing: no commands run here.
func readNow(*os.File, io.Writer) {}
