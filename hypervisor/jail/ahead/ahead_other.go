//go:build !linux

package ahead

// Preparation is of Linux; elsewhere there is nothing to prepare.
type Preparation struct{}

// New makes nothing.
func New(func() ([]byte, error)) *Preparation { return &Preparation{} }

// Begin does nothing.
func (*Preparation) Begin() {}
