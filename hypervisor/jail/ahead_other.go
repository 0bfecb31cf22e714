//go:build !linux

package jail

// Preparation is of Linux; elsewhere there is nothing to prepare.
type Preparation struct{}

// NewPreparation makes nothing.
func NewPreparation(func() ([]byte, error)) *Preparation { return &Preparation{} }

// Begin does nothing.
func (*Preparation) Begin() {}
