//go:build !linux

package qemu

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/codeagent/sandbox/hypervisor"
)

// Runtime is the virtual machine of Linux hosts; elsewhere it says so.
type Runtime struct{}

var _ hypervisor.Runtime = (*Runtime)(nil)

// New makes the runtime.
func New(Options) *Runtime { return &Runtime{} }

// Name implements [hypervisor.Runtime].
func (*Runtime) Name() string { return "vm" }

// Probe implements [hypervisor.Runtime].
func (*Runtime) Probe(context.Context) error {
	return fmt.Errorf("qemu: machines cannot be started on %s yet: %w (%w)", runtime.GOOS, hypervisor.ErrUnavailable, errors.ErrUnsupported)
}

// Acceleration is never known here.
func (r *Runtime) Acceleration(ctx context.Context) (accel string, why, err error) {
	return "", nil, r.Probe(ctx)
}

// KVM is Linux'.
func (r *Runtime) KVM() error { return r.Probe(context.Background()) }

// Start implements [hypervisor.Runtime].
func (r *Runtime) Start(ctx context.Context, _ hypervisor.Config) (hypervisor.Guest, error) {
	return nil, r.Probe(ctx)
}
