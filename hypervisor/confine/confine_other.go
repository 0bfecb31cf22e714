//go:build !linux

package confine

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/hypervisor"
)

// Runtime is a guest behind Landlock; elsewhere it says so.
type Runtime struct{}

var _ hypervisor.Runtime = (*Runtime)(nil)

// New makes the runtime.
func New(Options) *Runtime { return &Runtime{} }

// Name implements [hypervisor.Runtime].
func (*Runtime) Name() string { return "landlock" }

// Probe implements [hypervisor.Runtime].
func (*Runtime) Probe(context.Context) error {
	return fmt.Errorf("landlock: it exists on Linux only: %w (%w)", hypervisor.ErrUnavailable, errors.ErrUnsupported)
}

// Start implements [hypervisor.Runtime].
func (r *Runtime) Start(ctx context.Context, _ hypervisor.Config) (hypervisor.Guest, error) {
	return nil, r.Probe(ctx)
}
