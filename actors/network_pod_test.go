package actors

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/mediate"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// TestPodNetworkTells: each connection is told of, with its end, and of datagrams to one address the first; questions name the process.
func TestPodNetworkTells(t *testing.T) {
	var told []string
	e, err := policy.New(policy.Options{
		Network: policy.Network{Mode: policy.PodAsk, Allow: []string{"192.0.2.0/24"}}, HostAddrs: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.1.0.9")}, nil },
		OnEvent: func(ev policy.Event) { told = append(told, fmt.Sprint(ev.Kind, " ", ev.Protocol, " ", ev.Target)) },
		Ask: func(_ context.Context, q policy.Question) (policy.Answer, error) {
			return policy.Answer{Allow: q.PID == 7}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	n := &podNetwork{engine: e}
	flow := func(protocol, to string) mediate.Flow {
		return mediate.Flow{Protocol: protocol, To: netip.MustParseAddrPort(to), PID: 7}
	}
	for _, c := range []struct {
		f                mediate.Flow
		allowed, decided bool
	}{
		{flow("tcp", "192.0.2.1:80"), true, true}, {flow("tcp", "192.0.2.1:80"), true, true}, {flow("udp", "192.0.2.1:53"), true, true}, {flow("udp", "192.0.2.1:53"), true, true},
		{flow("udp", "127.0.0.1:53"), false, true}, {flow("udp", "127.0.0.1:53"), false, true}, {flow("tcp", "203.0.113.1:80"), false, false},
	} {
		if allowed, decided := n.Judge(c.f); allowed != c.allowed || decided != c.decided {
			t.Errorf("%+v: %v, %v", c.f, allowed, decided)
		}
	}
	if !n.Ask(t.Context(), flow("tcp", "203.0.113.1:80")) {
		t.Error("the process is not the question's")
	}
	want := []string{
		"start tcp 192.0.2.1:80", "end tcp 192.0.2.1:80", "start tcp 192.0.2.1:80", "end tcp 192.0.2.1:80", "start udp 192.0.2.1:53", "end udp 192.0.2.1:53", "deny udp 127.0.0.1:53",
		"ask tcp 203.0.113.1:80", "start tcp 203.0.113.1:80", "end tcp 203.0.113.1:80",
	}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	if !n.Local(netip.MustParseAddr("10.1.0.9")) || n.Local(netip.MustParseAddr("10.1.0.8")) {
		t.Error("which addresses are this namespace's")
	}
}
