//go:build !linux

package image

import (
	"context"
	"errors"
	"fmt"
)

// debian needs Linux: packages are installed in a directory that is a system's
// root.
func debian(context.Context, RootFSOptions, string) (map[string]string, error) {
	return nil, fmt.Errorf("image: a Debian root file system is built on Linux only; build it there, and name the file: --rootfs-path: %w", errors.ErrUnsupported)
}
