package policy

import (
	"net/netip"
	"strings"
	"testing"
)

// Rules hold for IPv6 as for IPv4, and no way of writing an address gets around them.
func TestIPv6(t *testing.T) {
	for _, c := range []struct {
		mode        Mode
		allow, deny string
		to          string
		want        bool
	}{
		{Allowlist, "[2001:db8::1]:443", "", "[2001:db8::1]:443", true},
		{Allowlist, "[2001:db8::1]:443", "", "[2001:db8::1]:80", false},
		{Allowlist, "2001:db8::/32", "", "[2001:db8:1::1]:80", true},
		{Allowlist, "2001:db8::/32", "", "[2001:db9::1]:80", false},
		{Allowlist, "*", "2001:db8::/32", "[2001:db8::1]:80", false},
		{Open, "", "[2001:db8::1]:443", "[2001:db8::1]:443", false},
		{Open, "", "[2001:db8::1]:443", "[2001:db8::1]:80", true},

		{Allowlist, "host.sandbox.internal:80", "", "[::1]:80", true},
		{Allowlist, "host.sandbox.internal:80", "", "127.0.0.1:80", true},
		{Allowlist, "host.sandbox.internal:80", "", "[::1]:81", false},
		{Allowlist, "host.sandbox.internal:80", "", "127.0.0.2:80", false},
		{Allowlist, "127.0.0.1:80", "", "[::1]:80", false},
		{Allowlist, "[::1]:80", "", "127.0.0.1:80", false},
		{Allowlist, "[::1]:80", "", "[::1]:80", true},
		{Allowlist, "[::1]:80", "host.sandbox.internal", "[::1]:80", false},
		{Open, "", "", "[::1]:80", false},
		{Open, "::/0", "", "[::1]:80", false},

		{Open, "", "", "[::ffff:127.0.0.1]:80", false},
		{Open, "", "", "[::127.0.0.1]:80", false},
		{Open, "", "", "[::ffff:0:127.0.0.1]:80", false},
		{Open, "", "", "[64:ff9b::169.254.169.254]:80", false},
		{Open, "", "", "[64:ff9b:1::127.0.0.1]:80", false},
		{Open, "", "", "[2002:7f00:1::1]:80", false},
		{Open, "", "", "[fe80::1]:80", false},
		{Open, "", "", "[2001:0:808:808::5601:5601]:80", false},
		{Open, "", "", "[2001:0:a9fe:a9fe::f7f7:f7f7]:80", true}, // what leads to a server is what comes last
		{Open, "", "", "[2001:db8::5efe:169.254.169.254]:80", false},
		{Open, "", "", "[2001:db8::200:5efe:127.0.0.1]:80", false},
		{Open, "", "", "[2001:db8::5efe:8.8.8.8]:80", true},
		{Open, "", "", "[fd00:ec2::254]:80", false},
		{Open, "", "", "[fd20:ce::254]:80", false},
		{Open, "", "", "[fd00:42::42]:80", false},
		{Open, "", "", "[ff02::1]:80", false},
		{Open, "", "", "[::]:80", false},

		{Open, "", "10.0.0.0/8", "[::ffff:10.1.2.3]:80", false},
		{Open, "", "10.0.0.0/8", "[64:ff9b::10.1.2.3]:80", false},
		{Open, "", "10.0.0.0/8", "[2002:a01:203::1]:80", false},
		{Open, "", "10.0.0.0/8", "[64:ff9b::11.1.2.3]:80", true},
	} {
		e, err := New(Options{
			Network:   Network{Mode: c.mode, Allow: strings.Fields(c.allow), Deny: strings.Fields(c.deny)},
			HostAddrs: func() ([]netip.Addr, error) { return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Peek(Target{Protocol: TCP, Address: netip.MustParseAddrPort(c.to)}); v.Allowed() != c.want {
			t.Errorf("%s, allow %q, deny %q: %s: %+v", c.mode, c.allow, c.deny, c.to, v)
		}
		e.Close()
	}
}

// A rule about the host's name contains those about its two addresses, and not the reverse.
func TestContainsHost(t *testing.T) {
	for _, c := range []struct {
		outer, inner string
		want         bool
	}{
		{"host.sandbox.internal", "[::1]:80", true},
		{"host.sandbox.internal", "127.0.0.1", true},
		{"host.sandbox.internal:80", "host.sandbox.internal:80", true},
		{"127.0.0.1", "host.sandbox.internal", false},
		{"host.sandbox.internal", "127.0.0.0/8", false},
		{"*", "host.sandbox.internal", true},
	} {
		outer, err := ParseRule(c.outer)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := ParseRule(c.inner)
		if err != nil {
			t.Fatal(err)
		}
		if got := outer.Contains(inner); got != c.want {
			t.Errorf("%s contains %s: %v", c.outer, c.inner, got)
		}
	}
}
