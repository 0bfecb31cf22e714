//go:build !linux

package window

import (
	"errors"
	"fmt"
	"io"
)

// hold holds nothing: only Linux has names that a network namespace knows and that end with their process.
func hold(string) (io.Closer, error) {
	return nil, fmt.Errorf("--network-strategy needs Linux; publish ports by --publish HOST:PORT: %w", errors.ErrUnsupported)
}

func isTaken(error) bool { return false }
