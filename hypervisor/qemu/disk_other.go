//go:build !linux

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
)

var errNoDisk = fmt.Errorf("qemu: a persistent machine needs Linux so far: start this one with --vm-mode ephemeral: %w", errors.ErrUnsupported)

// Open is not there yet.
func (Disk) Open(context.Context) (*os.File, error) { return nil, errNoDisk }

// Wipe has nothing to remove: there are no disks here.
func (Disk) Wipe(context.Context) error { return nil }

// Wipe implements [hypervisor.Wiper]: there are no disks here.
func (*Runtime) Wipe(context.Context) error { return nil }
