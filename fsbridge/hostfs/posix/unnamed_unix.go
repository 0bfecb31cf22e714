//go:build unix

package posix

import (
	"errors"
	"os"
)

// nameless makes a file, and takes its name away.
func nameless(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".sandbox-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
