package policy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// inPod makes an engine of a guest in our own network namespace, whose address is 10.1.0.9.
func inPod(t *testing.T, m Mode, ask AskFunc, rules, denied []string) *Engine {
	t.Helper()
	e, err := New(Options{Network: Network{Mode: m, Allow: rules, Deny: denied}, Ask: ask, Resolvers: addrs("127.0.0.53", "10.96.0.10"),
		HostAddrs: func() ([]netip.Addr, error) { return addrs("127.0.0.1", "10.1.0.9"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// TestPodDecides: without rules everything is reached but what is protected; with rules what they name. The resolvers are reached whatever the rules allow, not
// if one denies them.
func TestPodDecides(t *testing.T) {
	yes := func(context.Context, Question) (Answer, error) { return Answer{Allow: true}, nil }
	for _, c := range []struct {
		mode          Mode
		allow, deny   []string
		datagrams     bool
		reach, refuse string // as "tcp/192.0.2.1:80"
	}{
		{Pod, nil, nil, false, "tcp/192.0.2.1:80 tcp/10.96.0.1:443 udp/127.0.0.53:53 tcp/127.0.0.53:53 udp/192.0.2.1:53", "tcp/127.0.0.1:49983 tcp/10.1.0.9:49983 tcp/169.254.169.254:80 tcp/127.0.0.53:54 tcp/224.0.0.1:80"},
		{Pod, nil, []string{"10.96.0.0/16"}, true, "tcp/192.0.2.1:80", "tcp/10.96.0.1:443 udp/10.96.0.10:53"},
		{Pod, []string{"192.0.2.0/24:80", "127.0.0.1:5432"}, nil, true, "tcp/192.0.2.1:80 tcp/127.0.0.1:5432 udp/10.96.0.10:53", "tcp/192.0.2.1:81 tcp/127.0.0.1:80 tcp/10.96.0.1:443"},
		{Pod, []string{"*"}, nil, true, "tcp/192.0.2.1:80", "tcp/127.0.0.1:80 tcp/169.254.169.254:80"},
		{PodAsk, nil, nil, true, "udp/10.96.0.10:53", "tcp/127.0.0.1:80"},
	} {
		e := inPod(t, c.mode, yes, c.allow, c.deny)
		if e.Datagrams() != c.datagrams || e.Mode() != c.mode || !e.Mode().InPod() {
			t.Errorf("%+v: datagrams %v, mode %s", c, e.Datagrams(), e.Mode())
		}
		for list, want := range map[string]Action{c.reach: Allow, c.refuse: Deny} {
			for text := range strings.FieldsSeq(list) {
				proto, to, _ := strings.Cut(text, "/")
				if v := e.Peek(Target{Protocol(proto), netip.MustParseAddrPort(to)}); v.Action != want {
					t.Errorf("%+v: %s: %+v", c, text, v)
				}
			}
		}
	}
}

// TestPodAsks: what no rule names waits for a person, who is told which process asks.
func TestPodAsks(t *testing.T) {
	asked := make(chan Question, 1)
	e := inPod(t, PodAsk, func(_ context.Context, q Question) (Answer, error) {
		asked <- q
		return Answer{Allow: true}, nil
	}, nil, nil)
	target := Target{TCP, netip.MustParseAddrPort("192.0.2.1:80")}
	if v := e.Peek(target); v.Action != Undecided {
		t.Errorf("%+v", v)
	}
	if v := e.Reach(t.Context(), target, 77); !v.Allowed() {
		t.Errorf("%+v", v)
	}
	if q := <-asked; q.PID != 77 || q.Target != target {
		t.Errorf("%+v", q)
	}
	if v := e.Peek(target); !v.Allowed() {
		t.Errorf("not remembered: %+v", v)
	}
}

// TestPodKnowsNoNames: rules about names are refused, with what to do instead.
func TestPodKnowsNoNames(t *testing.T) {
	names := []string{"pypi.org"}
	for _, n := range []Network{{Mode: Pod, Allow: names}, {Mode: Pod, Deny: names}} {
		if _, err := New(Options{Network: n}); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), "NetworkPolicy") {
			t.Error(err)
		}
	}
	if err := (Network{Mode: Allowlist, Allow: names}).Check(); err != nil {
		t.Error(err)
	}
}

// TestLocal: what leads to this network namespace.
func TestLocal(t *testing.T) {
	e := inPod(t, Pod, nil, nil, nil)
	for a, want := range map[string]bool{"127.0.0.9": true, "::1": true, "0.0.0.0": true, "::": true, "::ffff:127.0.0.1": true, "10.1.0.9": true, "::ffff:10.1.0.9": true, "10.1.0.8": false, "169.254.169.254": false} {
		if got := e.Local(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
}

func TestNameservers(t *testing.T) {
	for conf, want := range map[string][]netip.Addr{
		"":                                       addrs("127.0.0.1"),
		"search a.test\nnameserver 10.96.0.10\n": addrs("10.96.0.10"),
		"nameserver 127.0.0.53\noptions edns0\nnameserver fe80::1%eth0\nnameserver x\n nameserver 1.1.1.1 # one": addrs("127.0.0.53", "fe80::1", "1.1.1.1"),
		"#nameserver 8.8.8.8\nnameserver\n": addrs("127.0.0.1"),
	} {
		if got := Nameservers(conf); !slices.Equal(got, want) {
			t.Errorf("%q: %v", conf, got)
		}
	}
}

func FuzzNameservers(f *testing.F) {
	f.Add("nameserver 10.96.0.10\nnameserver fe80::1%eth0")
	f.Fuzz(func(t *testing.T, conf string) {
		list := Nameservers(conf)
		if len(list) == 0 || len(list) > maxNameservers {
			t.Errorf("%d servers", len(list))
		}
		for _, a := range list {
			if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
				t.Errorf("%v", a)
			}
		}
	})
}
