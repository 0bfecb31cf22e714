//go:build !linux

package image

import (
	"errors"
	"os"
)

// anonymous makes a temporary file. Its name is gone at once where the system
// allows that (not on Windows, which clears its own directory).
func anonymous() (*os.File, error) {
	f, err := os.CreateTemp("", "sandbox-initramfs-")
	if err == nil {
		_ = os.Remove(f.Name())
	}
	return f, err
}

func exchange(string, string) error { return errors.ErrUnsupported }
