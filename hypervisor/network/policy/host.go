package policy

import (
	"net"
	"net/netip"
	"time"
)

// protected are the ranges that lead to the host itself, to its link, or to
// services that hand credentials to whoever asks from this machine.
var protected = []struct {
	prefix netip.Prefix
	is     string
}{
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, metadata"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata"},      // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata"},   // Google
	{netip.MustParsePrefix("fd00:42::42/128"), "metadata"},    // Scaleway
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"},   // Azure
	{netip.MustParsePrefix("192.0.0.192/32"), "metadata"},     // Oracle
}

// nowhere are ranges in which there is no host. Linux takes a connection to
// 0.0.0.0 for one to itself.
var nowhere = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/128"),
	netip.MustParsePrefix("ff00::/8"),
}

// embedding are IPv6 ranges whose addresses carry an IPv4 one, and where.
var embedding = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// ownFor is for how long the list of the host's addresses is believed.
const ownFor = 2 * time.Second

// guarded says why an address must be named by a rule, and the range a rule must
// lie in to do so; ok is false for ordinary addresses. An invalid range: no rule
// can. Called with the engine locked.
func (e *Engine) guarded(a netip.Addr) (within netip.Prefix, why string, ok bool) {
	for _, p := range protected {
		if p.prefix.Contains(a) {
			return p.prefix, p.is, true
		}
	}
	for _, p := range nowhere {
		if p.Contains(a) {
			return netip.Prefix{}, noHost, true
		}
	}
	if e.own[a] {
		return netip.PrefixFrom(a, a.BitLen()), "the host's own address", true
	}
	for _, c := range carried(a) {
		if _, why, ok := e.guarded(c); ok {
			return netip.PrefixFrom(a, a.BitLen()), why, true
		}
	}
	return netip.Prefix{}, "", false
}

// carried returns the IPv4 addresses that an IPv6 one carries, to which a translator or a
// tunnel of the host's network would send.
func carried(a netip.Addr) (list []netip.Addr) {
	for _, p := range embedding {
		if p.prefix.Contains(a) {
			b := a.As16()
			list = append(list, netip.AddrFrom4([4]byte(b[p.at:p.at+4])))
		}
	}
	if a.Is4() {
		return list
	}
	b := a.As16()
	last := [4]byte(b[12:])
	if isatap := b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe; isatap { // in any network
		list = append(list, netip.AddrFrom4(last))
	}
	if teredo.Contains(a) {
		for i := range last {
			last[i] = ^last[i]
		}
		list = append(list, netip.AddrFrom4(last))
	}
	return list
}

// teredo is the range of a tunnel whose addresses end with the other end's, inverted.
var teredo = netip.MustParsePrefix("2001::/32")

// refreshOwn looks at the host's addresses again if it was long ago. If that
// fails the old list stands. Called with the engine locked.
func (e *Engine) refreshOwn(now time.Time) {
	if !e.ownAt.IsZero() && now.Sub(e.ownAt) < ownFor {
		return
	}
	addrs, err := e.o.HostAddrs()
	if err != nil {
		e.log.Warn("cannot list the host's addresses", "error", err)
		return
	}
	e.ownAt = now
	e.own = make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		e.own[a.Unmap().WithZone("")] = true
	}
}

// hostAddrs lists the addresses of this machine's interfaces, and those at which
// it hears what is sent to everybody on its networks.
func hostAddrs() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, heardAt(p)...)
		}
	}
	return addrs, nil
}

// heardAt returns the addresses by which an interface with this one is reached:
// datagrams to the last of an IPv4 network, and to the first on older kernels, are
// for all its hosts, and the kernel gives them to this one as well.
func heardAt(p netip.Prefix) []netip.Addr {
	addrs := []netip.Addr{p.Addr()}
	if !p.Addr().Is4() || p.Bits() > 30 { // no room for them
		return addrs
	}
	first := p.Masked().Addr().As4()
	last := first
	for i := p.Bits(); i < 32; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return append(addrs, netip.AddrFrom4(first), netip.AddrFrom4(last))
}
