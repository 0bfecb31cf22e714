//go:build !linux

package jail

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/hypervisor"
)

// Runtime is the jail of Linux; elsewhere it says so.
type Runtime struct{}

var _ interface {
	hypervisor.Runtime
	hypervisor.Mediator
} = (*Runtime)(nil)

// New makes the runtime.
func New(Options) *Runtime { return &Runtime{} }

// Name implements [hypervisor.Runtime].
func (*Runtime) Name() string { return "jail" }

// Probe implements [hypervisor.Runtime].
func (*Runtime) Probe(context.Context) error {
	return fmt.Errorf("jail: namespaces exist on Linux only: %w (%w)", hypervisor.ErrUnavailable, errors.ErrUnsupported)
}

// Mediates says why nothing is mediated.
func (r *Runtime) Mediates(...string) error { return r.Probe(context.Background()) }

// Start implements [hypervisor.Runtime].
func (r *Runtime) Start(ctx context.Context, _ hypervisor.Config) (hypervisor.Guest, error) {
	return nil, r.Probe(ctx)
}

// Doubtful tells whether a jail may be refused here. What is refused anyway is no doubt.
func Doubtful() bool { return false }

// Explain fails: there is no jail here.
func Explain(hypervisor.Config, string) (hypervisor.Sight, error) {
	return hypervisor.Sight{}, (&Runtime{}).Probe(context.Background())
}

// Hidden fails: there is no jail here.
func Hidden(hypervisor.Config) ([]hypervisor.Secret, []string, error) {
	return nil, nil, (&Runtime{}).Probe(context.Background())
}

// Concealed finds nothing hidden: nothing is isolated here.
func Concealed(path string, _ []string) (resolved, in string) { return path, "" }
