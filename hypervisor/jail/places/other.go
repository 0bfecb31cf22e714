//go:build !linux

package places

import (
	"errors"
	"fmt"
)

var errOther = fmt.Errorf("overlays exist on Linux only: %w", errors.ErrUnsupported)

// List lists nothing here.
func (s Store) List() ([]Entry, error) { return nil, errOther }

// Changes fails here.
func (e Entry) Changes() ([]Change, error) { return nil, errOther }

// Apply fails here.
func (e Entry) Apply([]string) (Applied, error) { return Applied{}, errOther }

// Discard fails here.
func (e Entry) Discard() error { return errOther }
