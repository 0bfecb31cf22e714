package policy

import (
	"net/netip"
	"testing"
)

// What a refusal advises would allow it; where no rule would, it advises none.
func TestRemedy(t *testing.T) {
	for _, s := range []struct {
		to   Target
		want string
	}{
		{Target{TCP, netip.MustParseAddrPort("198.51.100.1:80")}, "198.51.100.1:80"},
		{Target{UDP, netip.MustParseAddrPort("[2001:db8::1]:53")}, "[2001:db8::1]:53"},
		{Target{ICMP, netip.MustParseAddrPort("198.51.100.1:0")}, "198.51.100.1"},
		{Target{TCP, netip.MustParseAddrPort("127.0.0.1:80")}, "127.0.0.1:80"},
		{Target{TCP, netip.MustParseAddrPort("169.254.169.254:80")}, "169.254.169.254:80"},
		{Target{TCP, netip.MustParseAddrPort("224.0.0.1:80")}, ""},
	} {
		var last Event
		engine := func(rules ...string) *Engine {
			e, err := New(Options{Network: Network{Mode: Allowlist, Allow: rules}, OnEvent: func(ev Event) { last = ev }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			return e
		}
		e := engine()
		e.Denied(s.to, netip.AddrPort{}, e.Peek(s.to))
		if got := last.Remedy(); got != s.want {
			t.Errorf("%v: %q, want %q", s.to, got, s.want)
		} else if got != "" && !engine(got).Peek(s.to).Allowed() {
			t.Errorf("%v: the rule %q does not allow it", s.to, got)
		}
	}
	for want, ev := range map[string]Event{
		"a.test":     {Action: Deny, Protocol: DNS, Domain: "a.test", Rule: notListed},
		"b.test:443": {Action: Deny, Protocol: TCP, Domain: "b.test", Rule: nameNotListed, Target: netip.MustParseAddrPort("198.51.100.1:443")},
		"":           {Action: Deny, Protocol: TCP, Rule: "too many connections", Target: netip.MustParseAddrPort("198.51.100.1:443")},
	} {
		if got := ev.Remedy(); got != want {
			t.Errorf("%+v: %q, want %q", ev, got, want)
		}
	}
}

// The name by which a guest finds the host names its loopback in a rule.
func TestHostRule(t *testing.T) {
	e, err := New(Options{Network: Network{Mode: Allowlist, Allow: []string{"tcp/host.sandbox.internal:8080"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for to, want := range map[string]bool{"127.0.0.1:8080": true, "127.0.0.1:8081": false, "127.0.0.2:8080": false} {
		if v := e.Peek(Target{TCP, netip.MustParseAddrPort(to)}); v.Allowed() != want {
			t.Errorf("%s: %+v", to, v)
		}
	}
}
