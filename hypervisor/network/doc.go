// Package network is the guest's network: a user-mode TCP/IP stack (gVisor's) on
// the host's side of a virtual ethernet cable. The guest's connections end here
// and go on as ordinary sockets of this process, if the policy engine
// ([policy.Engine]) allows; a root user of the guest has no rule to flush.
//
// # The cable
//
// A [Cable] of frames: the TAP device of a jail (package network), or a stream as QEMU's "-netdev stream" and "-netdev socket" speak it:
// four bytes of length, most significant first, and the ethernet frame. A frame is
// no longer than the MTU and 14 bytes. A cable to a device of this machine's kernel
// ([LocalCable]) carries no TCP and UDP checksums; on others all are made and checked.
// (A UDP datagram over IPv6 may not have zero: package network writes some number.)
// Flows that stream on it have large buffers: frames are as large as they can be, so that
// what remains to be saved is one end's waiting for the other.
//
// # What the guest sees
//
// One IPv4 address, with [Options.Subnet6] one IPv6 address, a gateway that is the host's loopback by another name
// ("host.sandbox.internal": a connection to it is decided as one to 127.0.0.1),
// and a DNS server. It may set them statically ([Network.Guest]) or ask by DHCP.
//
//   - TCP: the SYN waits until the policy has decided and the host is connected;
//     denied or failed is a reset. Ends of streams, resets and backpressure pass
//     in both directions.
//   - UDP: one flow per pair of addresses, until nothing passed for a while.
//     Denied is an ICMP "port unreachable".
//   - ICMP: echo requests are sent on by a socket of the host's, where it has the
//     right to (Linux: net.ipv4.ping_group_range, or root). Nothing else.
//   - DNS: addresses of names (A, and AAAA where guest and host have IPv6) that the
//     policy allows; everything else has an empty answer, forbidden names are refused. The host's resolver is asked, so
//     its hosts file and VPNs count.
//
// Connections to hosts for which the user asked for that are served by an
// [Interceptor], which ends TLS. No others are.
//
// IPv6 has no router advertisements, no neighbour discovery (both ends know each other's
// address), no fragments and no extension headers: such frames do not pass. Its gateway
// is the host's ::1.
//
// There is no multicast, and nothing can be reached from outside.
//
// # Trust
//
// Frames come from a hostile guest. Those that have not its own source address,
// are longer than the MTU allows, or are neither ARP nor IP are dropped before
// the stack sees them. Flows, undecided flows, lookups, pings, new flows per
// second and the buffers of each are bounded ([Limits]), and so is how many flows at a
// time have the larger buffers that streams on a [LocalCable] get; beyond, they are refused
// or dropped. What the guest does not take off its cable is dropped, as a switch
// would.
//
// # The network card of a jail
//
// This part is a jail's network card: a TAP device of the kernel in the jail's
// network namespace, whose other end is a cable of package network.
//
// Whoever is born in that namespace opens [TapPath] there, makes the device with the
// requests that this package writes ([AttachTap], [TapMessages]), and hands the descriptor
// to the supervisor. The namespace is its own, so that this takes no right on the
// host but to open the device. [NewTap] makes a cable of the descriptor.
//
// Before each frame stands a header (IFF_VNET_HDR) by which both ends spare
// each other the checksums; frames are not joined or cut, as the MTU is large.
//
// Trust:
//
// Inside nobody has a capability: the device's address, its routes and its state
// stay as they were made, and nobody gets a raw or a packet socket. Nothing relies
// on that: frames are as hostile as a virtual machine's, and package network checks
// them.
//
// # The host's proxies
//
// This part connects through the HTTP and SOCKS proxies that the host's environment
// names, so that guests need to know nothing of them: HTTPS_PROXY for port 443,
// HTTP_PROXY for port 80, ALL_PROXY for all ports (and for these two if they have none of
// their own), NO_PROXY for what is reached directly; in capitals or not. Loopback is
// always reached directly.
//
// A proxy is asked for a tunnel (CONNECT, or SOCKS5) by the name that the guest looked up,
// else by address. What comes out of it is the guest's stream as it is: TLS stays whole,
// and the password of the proxy stays outside.
//
// Trust:
//
// The host's environment is trusted, a proxy's answer is not: its head is bounded and
// nothing behind it is taken off the connection. Which address a name has is decided by
// the proxy; the policy has decided about the name, and about the address that our own
// lookup found.
package network
