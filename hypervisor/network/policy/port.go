package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Port is one of the guest's that is published: whoever connects to Listen on the host
// reaches it. If Listen is the zero value, the session's window says where ([window.Window]).
type Port struct {
	Listen netip.AddrPort
	Guest  uint16
}

// String returns the port as [ParsePort] reads it.
func (p Port) String() string {
	if !p.Listen.IsValid() {
		return strconv.Itoa(int(p.Guest))
	}
	return fmt.Sprintf("%s:%d", p.Listen, p.Guest)
}

// ParsePort parses [ADDR:]HOST:GUEST, by default on 127.0.0.1, or GUEST alone. An IPv6 address stands in
// brackets. An error wraps [ErrSyntax].
func ParsePort(text string) (Port, error) {
	fail := func(why string) (Port, error) {
		return Port{}, fmt.Errorf("%w: published port %q: %s", ErrSyntax, text, why)
	}
	rest, guest, ok := cutLast(text)
	if !ok {
		low, high, err := parsePorts(text)
		if err != nil || low != high {
			return fail("write [ADDR:]HOST:GUEST, two ports, or with --network-strategy one")
		}
		return Port{Guest: low}, nil
	}
	p := Port{Listen: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)}
	addr, host, ok := cutLast(rest)
	if !ok {
		addr, host = "", rest
	}
	if ok {
		bare := strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
		a, err := netip.ParseAddr(bare)
		if err != nil || a.Is6() != (bare != addr) {
			return fail(fmt.Sprintf("%q is no address; an IPv6 address stands in brackets", addr))
		}
		p.Listen = netip.AddrPortFrom(a, 0)
	}
	for _, part := range []struct {
		text string
		set  func(uint16)
	}{{host, func(n uint16) { p.Listen = netip.AddrPortFrom(p.Listen.Addr(), n) }}, {guest, func(n uint16) { p.Guest = n }}} {
		low, high, err := parsePorts(part.text)
		if err != nil || low != high {
			return fail(fmt.Sprintf("%q is no port (1-65535)", part.text))
		}
		part.set(low)
	}
	return p, nil
}

// ParsePorts parses several; the error is about the first that is wrong, or that
// somebody has before it.
func ParsePorts(texts []string) ([]Port, error) {
	ports := make([]Port, 0, len(texts))
	taken := map[string]bool{}
	for _, t := range texts {
		p, err := ParsePort(t)
		where := p.Listen.String()
		if !p.Listen.IsValid() {
			where = p.String()
		}
		if err == nil && taken[where] {
			err = fmt.Errorf("%w: published port %q: %s is published twice", ErrSyntax, t, where)
		}
		if err != nil {
			return nil, err
		}
		taken[where] = true
		ports = append(ports, p)
	}
	return ports, nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
