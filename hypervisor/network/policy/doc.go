// Package policy decides what a guest may reach, and tells of every flow. It
// knows nothing of packets: a network stack, or a jail's broker, asks it.
//
// # Modes
//
// "disabled" refuses everything. "open" allows everything but the host itself
// (below). "allowlist" allows what a rule names. "ask" allows what a rule names
// and has a person decide the rest: the flow is held meanwhile, equal questions
// are asked once, no answer in time means no.
//
// "pod" and "pod-ask" are for guests in this program's own network namespace, whose sockets reach what the namespace does. Somebody else has to
// see to what is decided (fsbridge/mediate). "pod" without rules decides as "open" does, and with rules as "allowlist"; "pod-ask" decides as "ask". Programs
// ask the namespace's own DNS servers ([Options].Resolvers), so rules cannot be about names ([Network.Check]).
//
// # Rules
//
// A rule is [tcp/|udp/|icmp/]HOST[:PORT[-PORT]]. HOST is an IP address, a CIDR
// range, a domain, "*.domain" (every name below it, not itself) or "*". An IPv6
// host with a port stands in brackets.
//
// A domain rule works by the answers that our own DNS gave: a name that no rule
// names is not resolved at all, so that nothing leaks through the question, and
// an answer that was given opens its addresses for as long as it is remembered.
// As an address may be shared, a flow that was opened by a name only is looked
// at once more when it says a name itself (TLS): [Engine.ServerName]. QUIC says it
// in an encrypted way, so that only a domain rule with "udp/" opens UDP port 443.
//
// Rules that deny come first. One with a domain denies the name, and addresses for as
// long as they are remembered as an answer for it (with ports: for those only); it does
// not know other addresses of a server.
//
// # The host
//
// Loopback, the host's own addresses, link-local ones and cloud metadata
// services are reached only if a rule names them: an address, or a range no
// wider than the protected one. "0.0.0.0/0", "*", mode "open", a domain whose
// answer points there, and a person in mode "ask" do not. What is no host at all
// (multicast, broadcast, 0.0.0.0/8) is never reached.
//
// # Trust, locking
//
// Names, addresses and their number come from a hostile guest: every table is
// bounded, and full tables refuse. One mutex guards the engine; it is not held
// while somebody is asked, nor while an event is delivered.
package policy
