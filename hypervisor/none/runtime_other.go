//go:build !linux

package none

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/codeagent/sandbox/hypervisor"
)

// Options configure the runtime.
type Options struct {
	Dir    string
	Umask  int
	Logger *slog.Logger
}

// Runtime implements [hypervisor.Runtime] by refusing.
type Runtime struct{}

// New returns the runtime.
func New(Options) *Runtime { return &Runtime{} }

// Name returns "none".
func (*Runtime) Name() string { return "none" }

// Probe returns an error: the bridge needs Linux so far.
func (*Runtime) Probe(context.Context) error {
	return fmt.Errorf("%w: the bridge needs Linux: %w", hypervisor.ErrUnavailable, errors.ErrUnsupported)
}

// Start returns Probe's error.
func (r *Runtime) Start(ctx context.Context, _ hypervisor.Config) (hypervisor.Guest, error) {
	return nil, r.Probe(ctx)
}
