//go:build !linux && !windows

package image

import (
	"errors"
	"os"
)

// anonymous makes a temporary file, whose name is gone at once.
func anonymous() (*os.File, error) {
	f, err := os.CreateTemp("", "sandbox-initramfs-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func exchange(string, string) error { return errors.ErrUnsupported }
