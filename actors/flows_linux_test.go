package actors

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// target is a TCP port of an address.
func target(at string) policy.Target {
	return policy.Target{Protocol: policy.TCP, Address: netip.MustParseAddrPort(at)}
}

// overSocket asks a session for its network as another process does.
func overSocket(t *testing.T, s *Session) api.NetworkStatus {
	t.Helper()
	c, err := Dial(t.Context(), s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	st, err := c.(api.Networked).Network(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestNetworkStatus: another process is told what is connected, what was refused and what would allow it, and nothing of a
// flow that has ended.
func TestNetworkStatus(t *testing.T) {
	l := newLab(t, 1, func(c *api.Config) { c.Network.Mode, c.Network.Allow = policy.Allowlist, []string{"198.51.100.0/24"} })
	e := l.s.net.engine
	source := netip.MustParseAddrPort("10.0.2.15:4000")
	var flows []*policy.Flow
	for i := range mostFlows + 5 {
		to := target(fmt.Sprintf("198.51.100.%d:80", i%200+1))
		flows = append(flows, e.Start(to, source, e.Peek(to)))
	}
	flows[len(flows)-1].Sent(100)
	flows[len(flows)-1].Received(7)
	for range 3 {
		e.Denied(target("203.0.113.9:443"), source, e.Peek(target("203.0.113.9:443")))
	}
	e.LookedUp(source, e.Lookup(t.Context(), "a.test", source), nil)

	st := overSocket(t, l.s)
	if st.Mode != "allowlist" || !slices.Equal(st.Allow, []string{"198.51.100.0/24"}) || len(st.Deny) != 0 || st.Live != len(flows) || len(st.Flows) != mostFlows || st.Allowed != uint64(len(flows)) || st.Denied != 4 {
		t.Errorf("%+v", st)
	}
	if f := st.Flows[0]; f.ID != uint64(len(flows)) || f.Sent != 100 || f.Received != 7 || f.Rule != "198.51.100.0/24" || f.Port != 80 || f.Protocol != "tcp" || f.Process != nil || f.Since.IsZero() {
		t.Errorf("the newest flow: %+v", f)
	}
	if len(st.Refused) != 2 {
		t.Fatalf("refused: %+v", st.Refused)
	}
	if r := st.Refused[0]; r.Protocol != "dns" || r.Host != "a.test" || r.AllowHost != "a.test" || r.Times != 1 || r.Address != "" {
		t.Errorf("%+v", r)
	}
	if r := st.Refused[1]; r.Times != 3 || r.Address != "203.0.113.9" || r.Port != 443 || r.AllowHost != "203.0.113.9:443" || r.Rule != "not in the allow list" {
		t.Errorf("%+v", r)
	}
	for _, f := range flows {
		f.End(nil)
	}
	for i := range mostRefusals + 50 {
		to := target(fmt.Sprintf("203.0.113.%d:%d", i%250, 1000+i))
		e.Denied(to, source, e.Peek(to))
	}
	st = overSocket(t, l.s)
	if st.Live != 0 || len(st.Flows) != 0 || len(st.Refused) != mostRefusals || st.Refused[0].Port != uint16(1000+mostRefusals+49) {
		t.Errorf("afterwards: %d flows, %d refused, the newest %+v", st.Live, len(st.Refused), st.Refused[0])
	}
}

// TestNetworkStatusAnswers: what waits for an answer and what was answered is told, and only of the network.
func TestNetworkStatusAnswers(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	l := newLab(t, 1, func(c *api.Config) { c.Network.Mode = policy.Ask })
	to := target("198.51.100.1:80")
	verdicts := make(chan policy.Verdict, 1)
	go func() { verdicts <- l.s.net.engine.Connect(t.Context(), to, netip.AddrPort{}) }()
	p := l.event(api.EventSafeguardTriggered).Pending
	if st := overSocket(t, l.s); len(st.Waiting) != 1 || st.Waiting[0].ID != p.ID || len(st.Answers) != 0 {
		t.Errorf("%+v", st)
	}
	if err := l.s.Decide(t.Context(), api.DecideRequest{ID: p.ID, By: "test", Scope: "session"}); err != nil {
		t.Fatal(err)
	}
	v := actortest.Within(t, "verdict", verdicts)
	l.s.net.engine.Denied(to, netip.AddrPort{}, v)
	st := overSocket(t, l.s)
	if len(st.Waiting) != 0 || len(st.Answers) != 1 || st.Answers[0].Outcome != "deny" || st.Answers[0].By != "test" || !st.Answers[0].Standing {
		t.Errorf("%+v", st)
	}
	if len(st.Refused) != 1 || st.Refused[0].Rule != "denied by a person" || st.Refused[0].AllowHost != "198.51.100.1:80" {
		t.Errorf("%+v", st.Refused)
	}
}

// TestNoNetworkStatus: where there is no network, that is said.
func TestNoNetworkStatus(t *testing.T) {
	l := newLab(t, 1, nil)
	if st := overSocket(t, l.s); st.Mode != "disabled" || st.Flows == nil || st.Refused == nil || st.Allow == nil {
		t.Errorf("%+v", st)
	}
}

// TestOwners: a program is looked for once for each flow, of many flows for the newest at first, and forgotten with its flow.
func TestOwners(t *testing.T) {
	var o owners
	sought := map[uint64]int{}
	find := func(f policy.Event) *api.Process {
		sought[f.Flow]++
		if f.Flow%2 == 0 {
			return nil
		}
		return &api.Process{PID: os.Getpid()}
	}
	var flows []policy.Event
	for i := range 2 * mostSought {
		flows = append(flows, policy.Event{Flow: uint64(100 - i)})
	}
	first := o.of(flows, find)
	if len(sought) != mostSought || first[99] == nil || first[100] != nil || sought[100] != 1 {
		t.Errorf("%v", sought)
	}
	o.of(flows, find)
	o.of(flows, find)
	if len(sought) != len(flows) {
		t.Errorf("%d of %d were looked for", len(sought), len(flows))
	}
	for id, n := range sought {
		if n != 1 {
			t.Errorf("flow %d: looked for %d times", id, n)
		}
	}
	o.of(nil, find)
	if o.of(flows[:1], find); sought[100] != 2 {
		t.Error("a flow that had gone was remembered")
	}
}
