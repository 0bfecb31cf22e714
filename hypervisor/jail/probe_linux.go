package jail

import (
	"context"
	"fmt"

	"github.com/codeagent/sandbox/hypervisor"
)

// Probe implements [hypervisor.Runtime]: it opens /dev/fuse, or finds out that
// folders can be mediated, and starts an empty jail, the only answer that counts.
func (r *Runtime) Probe(ctx context.Context) error {
	if err := hostFUSE(); err != nil && r.Mediates() != nil {
		return explainHost(fmt.Errorf("jail: opening /dev/fuse: %w", err))
	}
	g, err := r.Start(ctx, hypervisor.Config{SessionID: "probe", UID: -1, GID: -1})
	if err != nil {
		return err
	}
	return g.Stop(ctx)
}
