package mediate

import (
	"context"
	"net/netip"
)

// Network decides what a guest reaches that has no network namespace of its own: its sockets are those of this program's. It is safe for concurrent use.
type Network interface {
	// Local tells whether an address leads to this namespace itself. What listens there may be the guest's own, which needs no decision.
	Local(a netip.Addr) bool
	// Judge decides about a flow if nobody needs to be asked.
	Judge(f Flow) (allowed, decided bool)
	// Ask has somebody decide, and returns when that was done or ctx ends: no.
	Ask(ctx context.Context, f Flow) (allowed bool)
}

// Flow is a connection, or a datagram, that a guest wants to have made.
type Flow struct {
	// Protocol is "tcp", "udp" or "icmp".
	Protocol string
	// To is where it goes. Its port is 0 for icmp.
	To netip.AddrPort
	// PID is the process that wants it, as we number it.
	PID int
}
