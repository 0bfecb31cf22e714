//go:build !linux

package readonly

import (
	"errors"
	"fmt"
)

// Mount is a read-only mount over a folder.
type Mount struct{}

// Cover is not possible here.
func Cover(_, folder string) (*Mount, error) {
	return nil, fmt.Errorf("%s cannot be made read-only for other processes on this system: %w", folder, errors.ErrUnsupported)
}

// Uncover does nothing: there is no [Cover].
func Uncover(string, string) (bool, error) { return false, nil }

// Left finds nothing: there is no [Cover].
func Left(string, string) (bool, error) { return false, nil }

// TakeOff does nothing.
func (m *Mount) TakeOff() error { return nil }
