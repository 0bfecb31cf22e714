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

// Listening decides where programs inside listen. It is safe for concurrent use, and must not block.
type Listening interface {
	// Binds is asked before a program binds a socket of TCP or UDP to an address with a port ([Flow].To). It returns the address to which the socket is to be bound: the same, or
	// another one of an IPv4 loopback or with another port. False: the program is refused.
	Binds(f Flow) (at netip.AddrPort, ok bool)
	// Bound hears that this was done, with what Binds was asked.
	Bound(f Flow)
	// Connects returns where a connection goes that a program makes to an address of this network namespace, if that is where it listens ([Listening.Binds]): the same, or another one.
	Connects(to netip.AddrPort) netip.AddrPort
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
