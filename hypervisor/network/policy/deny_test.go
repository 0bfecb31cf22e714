package policy

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A rule that denies comes before all that allows: modes, rules, and people.
func TestDenied(t *testing.T) {
	for _, mode := range []Mode{Open, Allowlist, Ask} {
		e, err := New(Options{
			Network: Network{
				Mode: mode, Allow: []string{"*", "127.0.0.1"},
				Deny: []string{"198.51.100.0/28", "udp/198.51.100.40:53", "bad.test", "*.evil.test", "ports.test:22", "127.0.0.1:22"},
			},
			Ask: func(context.Context, Question) (Answer, error) { return Answer{Allow: true}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		learn := func(name, address string) {
			v := e.Lookup(t.Context(), name, netip.AddrPort{})
			e.Learn(v, []netip.Addr{netip.MustParseAddr(address)}, time.Minute)
		}
		learn("ports.test", "198.51.100.50")
		learn("good.test", "198.51.100.60")
		for to, want := range map[string]bool{
			"tcp 198.51.100.5:80": false, "tcp 198.51.100.16:80": true,
			"udp 198.51.100.40:53": false, "tcp 198.51.100.40:53": true, "udp 198.51.100.40:54": true,
			"tcp 198.51.100.50:22": false, "tcp 198.51.100.50:80": true, "tcp 198.51.100.60:22": true,
			"tcp 127.0.0.1:22": false, "tcp 127.0.0.1:80": true,
		} {
			kind, address, _ := strings.Cut(to, " ")
			v := e.Peek(Target{Protocol(kind), netip.MustParseAddrPort(address)})
			if v.Allowed() != want || !want && !strings.HasPrefix(v.Rule, byDenial) {
				t.Errorf("%s, %s: %+v", mode, to, v)
			}
			if !want && (Event{Action: Deny, Protocol: Protocol(kind), Target: netip.MustParseAddrPort(address), Rule: v.Rule}).Remedy() != "" {
				t.Errorf("%s, %s: a remedy for what is denied", mode, to)
			}
		}
		for name, want := range map[string]bool{"bad.test": false, "a.evil.test": false, "evil.test": true, "ports.test": true} {
			if v := e.Lookup(t.Context(), name, netip.AddrPort{}); v.Allowed() != want {
				t.Errorf("%s, %s: %+v", mode, name, v)
			}
		}
		named := Verdict{Action: Allow, ByName: true, Domain: "good.test"}
		if v := e.ServerName(named, Target{TCP, netip.MustParseAddrPort("198.51.100.60:443")}, "bad.test"); v.Allowed() {
			t.Errorf("%s: a connection to an allowed name that asks for a denied one: %+v", mode, v)
		}
	}
}
