//go:build !linux

package qemu

import (
	"context"
	"errors"
)

// Wipe removes a disk; there are none here.
func (Disk) Wipe(context.Context) error { return errors.ErrUnsupported }

// Wipe implements [hypervisor.Wiper].
func (*Runtime) Wipe(context.Context) error { return errors.ErrUnsupported }
