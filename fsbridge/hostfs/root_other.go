//go:build !linux

package hostfs

import (
	"errors"
	"fmt"
)

// Root is an open directory below which everything happens. Only Linux has it
// so far.
type Root struct{ path string }

// OpenRoot returns an error wrapping errors.ErrUnsupported.
func OpenRoot(path string) (*Root, error) {
	return nil, fmt.Errorf("open directory %q: the bridge needs Linux so far: %w", path, errors.ErrUnsupported)
}

// Path returns the path given to OpenRoot.
func (r *Root) Path() string { return r.path }

// ID returns the root directory's identity.
func (r *Root) ID() ID { return ID{} }

// Close does nothing.
func (r *Root) Close() error { return nil }

// ClearUmask does nothing and returns a usual umask.
func ClearUmask() int { return 0o022 }

// SetUmask does nothing.
func SetUmask(int) {}
