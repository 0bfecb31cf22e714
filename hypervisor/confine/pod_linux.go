package confine

import (
	"context"
	"fmt"
	"net"

	"github.com/codeagent/sandbox/hypervisor"
)

// podGuest is a guest in this program's network namespace: its loopback is ours, too.
type podGuest struct{ *guest }

var _ hypervisor.Dialer = podGuest{}

// Dial implements [hypervisor.Dialer]. Who else listens in the namespace is not the guest.
func (g podGuest) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	at, ok := g.cfg.Listens(port)
	if !ok {
		return nil, fmt.Errorf("landlock: no program inside listens at port %d", port)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", at.String())
}
