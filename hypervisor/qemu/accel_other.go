//go:build !linux

package qemu

import (
	"context"
	"fmt"
	"runtime"
)

// accelerated returns nil if a machine gets on with this system's own acceleration.
func accelerated(ctx context.Context, program, arch string, seccomp *bool) error {
	*seccomp = false // a filter of Linux's
	if arch != runtime.GOARCH {
		return fmt.Errorf("no %s: the guest is %s, and this machine %s", ownAccel(), arch, runtime.GOARCH)
	}
	if err := runsInQEMU(ctx, program, arch, ownAccel()); err != nil {
		return fmt.Errorf("no %s: %w%s", ownAccel(), err, accelAdvice)
	}
	return nil
}

// KVM is Linux'.
func (r *Runtime) KVM() error {
	_, why, err := r.Acceleration(context.Background())
	if err != nil {
		return err
	}
	return why
}

// fitsHost leaves it to QEMU to say that there is not so much memory.
func fitsHost(int64) error { return nil }
