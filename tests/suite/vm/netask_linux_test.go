package vm

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/messages"
)

// names resolves what the tests need: addresses that are nobody's (RFC 5737).
type names map[string]string

func (n names) LookupIPv6(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	if a, ok := n["6."+name]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, time.Minute, nil
	}
	return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (n names) LookupIPv4(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	if a, ok := n[name]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, time.Minute, nil
	}
	return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// asker is who decides: it allows and denies what the test says, and nothing else.
type asker struct {
	mu      sync.Mutex
	answers map[string]bool // by the question
	asked   []string
	flows   []policy.Event
}

func (a *asker) hear(s *actors.Session) func(api.Event) {
	return func(e api.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case e.Type == api.EventNetwork:
			a.flows = append(a.flows, *e.Network)
		case e.Type == api.EventSafeguardTriggered && e.Pending.Kind == messages.KindNetwork:
			a.asked = append(a.asked, e.Pending.Message)
			if allow, ok := a.answers[e.Pending.Message]; ok {
				_ = s.Decide(context.Background(), api.DecideRequest{ID: e.Pending.ID, Allow: allow, By: "test"}) // the flow would not go on
			}
		}
	}
}

// questions returns what was asked since the last call.
func (a *asker) questions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// recorded reports whether the audit has such a line.
func (a *asker) recorded(like func(policy.Event) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.flows, like)
}

// netLab is a machine whose policy is to ask. Its outside is one web server and
// one that sends datagrams back, at every address.
type netLab struct {
	*live
	*asker
	loopback string // the web server's port on 127.0.0.1
}

func startNetLab(t *testing.T) *netLab {
	web, other := webServer(t), webServer(t)
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { echo.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			if n > 2 {
				buf[2] |= 0x80 // to a query: the answer that there is none
			}
			_, _ = echo.WriteTo(buf[:n], from)
		}
	}()
	l := &netLab{loopback: web, asker: &asker{answers: map[string]bool{}}}
	l.live = startLive(t, func(cfg *api.Config, o *qemu.Options) {
		cfg.Network = policy.Network{Mode: policy.Ask, Allow: []string{"named.test:80", "127.0.0.1:" + web, "udp/198.51.100.7:53"}}
		cfg.Safeguards.Timeout = 10 * time.Minute
		o.Network = network.Options{
			Resolver: names{"named.test": "198.51.100.5", "asked.test": "198.51.100.6", "bad.test": "198.51.100.9"},
			Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
				switch {
				case kind == "udp":
					address = echo.LocalAddr().String()
				case strings.HasPrefix(address, "198.51.100."):
					address = "127.0.0.1:" + other
				}
				return new(net.Dialer).DialContext(ctx, kind, address)
			},
		}
	})
	t.Cleanup(l.s.Subscribe(l.hear(l.s)))
	return l
}

// get fetches a page in the guest, and returns it, or "refused".
func (l *netLab) get(url string) string {
	l.t.Helper()
	out := strings.TrimSpace(l.sh("wget -q -O - " + url + " 2>/dev/null || echo refused"))
	return out
}

// asks fails unless the questions since the last call are these.
func (l *netLab) asks(want ...string) {
	l.t.Helper()
	if got := l.questions(); !slices.Equal(got, want) {
		l.t.Errorf("asked %q, want %q", got, want)
	}
}

func (l *netLab) answer(question string, allow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[question] = allow
}

// TestNetworkAsk: what a rule names is reached, what none names is a question for
// a person, whose answer is remembered, and the audit has all of it. One machine.
func TestNetworkAsk(t *testing.T) {
	l := startNetLab(t)
	for _, s := range []struct {
		name string
		test func(*testing.T, *netLab)
	}{
		{"named", netNamed}, {"allowed", netAllowed}, {"denied", netDenied}, {"name", netName}, {"timeout", netTimeout},
		{"datagrams", netDatagrams}, {"audit", netAudit}, {"inspect", netInspect},
	} {
		t.Run(s.name, func(t *testing.T) {
			l.t = t
			s.test(t, l)
		})
	}
	l.t = t
}

// netNamed: rules, by address and by the name that our DNS gave, and what no
// person may open.
func netNamed(t *testing.T, l *netLab) {
	if got := l.get("http://10.0.2.2:" + l.loopback); got != "served 10.0.2.2:"+l.loopback {
		t.Errorf("the host's loopback, which is named: %q", got)
	}
	if got := l.get("http://named.test"); got != "served named.test" {
		t.Errorf("a name that is named: %q", got)
	}
	if got := l.get("http://198.51.100.5"); got != "served 198.51.100.5" {
		t.Errorf("the address of that name: %q", got)
	}
	for _, url := range []string{"http://10.0.2.2:1", "http://169.254.169.254", "http://0.0.0.1", "http://240.0.0.1"} {
		if got := l.get(url); got != "refused" {
			t.Errorf("%s: %q", url, got)
		}
	}
	l.asks()
}

func netAllowed(t *testing.T, l *netLab) {
	const question = "connect to tcp 198.51.100.1:80"
	l.answer(question, true)
	for range 2 { // the answer is remembered
		if got := l.get("http://198.51.100.1"); got != "served 198.51.100.1" {
			t.Errorf("%q", got)
		}
	}
	l.asks(question)
}

func netDenied(t *testing.T, l *netLab) {
	const question = "connect to tcp 198.51.100.2:80"
	l.answer(question, false)
	for range 2 {
		if got := l.get("http://198.51.100.2"); got != "refused" {
			t.Errorf("%q", got)
		}
	}
	l.asks(question)
}

// netName: a name is asked about before anybody resolves it, and its addresses
// not once more.
func netName(t *testing.T, l *netLab) {
	const good, bad = "connect to asked.test (its name is looked up, and its addresses opened)", "connect to bad.test (its name is looked up, and its addresses opened)"
	l.answer(good, true)
	l.answer(bad, false)
	if got := l.get("http://asked.test"); got != "served asked.test" {
		t.Errorf("%q", got)
	}
	if got := l.get("http://bad.test"); got != "refused" {
		t.Errorf("%q", got)
	}
	asked := l.questions() // a resolver may ask more than once
	slices.Sort(asked)
	if want := []string{good, bad}; !slices.Equal(slices.Compact(asked), want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// netTimeout: nobody decides, and that is no answer for the next time.
func netTimeout(t *testing.T, l *netLab) {
	guards, err := l.s.Safeguards(t.Context())
	check(t, err)
	short := guards
	short.Timeout = time.Millisecond
	check(t, l.s.ConfigureSafeguards(t.Context(), short))
	if got := l.get("http://198.51.100.3"); got != "refused" {
		t.Errorf("nobody decided: %q", got)
	}
	check(t, l.s.ConfigureSafeguards(t.Context(), guards))
	const question = "connect to tcp 198.51.100.3:80"
	l.answer(question, true)
	if got := l.get("http://198.51.100.3"); got != "served 198.51.100.3" {
		t.Errorf("somebody decided: %q", got)
	}
	l.asks(question, question)
}

func netDatagrams(t *testing.T, l *netLab) {
	out := l.sh("nslookup -type=a far.test 198.51.100.7 2>&1 || true")
	if !strings.Contains(out, "Non-authoritative answer") || strings.Contains(out, "timed out") {
		t.Errorf("%q", out)
	}
	l.asks()
}

// netAudit: events of flows with what they moved, and the decisions' file.
func netAudit(t *testing.T, l *netLab) {
	for what, like := range map[string]func(policy.Event) bool{
		"a flow's end": func(e policy.Event) bool {
			return e.Kind == policy.EventEnd && e.Domain == "named.test" && e.Rule == "named.test:80" && e.Sent > 0 && e.Received > 0
		},
		"a person's yes": func(e policy.Event) bool {
			return e.Kind == policy.EventStart && e.Target.String() == "198.51.100.1:80" && e.Rule == "allowed by a person"
		},
		"a person's no": func(e policy.Event) bool {
			return e.Kind == policy.EventDeny && e.Target.String() == "198.51.100.2:80" && e.Rule == "denied by a person"
		},
		"the host": func(e policy.Event) bool {
			return e.Kind == policy.EventDeny && strings.HasPrefix(e.Rule, "protected: ")
		},
		"a lookup":   func(e policy.Event) bool { return e.Kind == policy.EventLookup && e.Domain == "named.test" },
		"a question": func(e policy.Event) bool { return e.Kind == policy.EventAsk && e.Domain == "asked.test" },
		"a datagram": func(e policy.Event) bool { return e.Kind == policy.EventStart && e.Protocol == policy.UDP },
	} {
		for end := time.Now().Add(patience); !l.recorded(like); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s is not in the audit", what)
				break
			}
		}
	}
	var decisions map[string]string
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // no decision waits for its line
		decisions = netDecisions(t, l)
		right := decisions["connect to tcp 198.51.100.1:80"] == "allow by test" && decisions["connect to tcp 198.51.100.2:80"] == "deny by test"
		if right {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v", decisions)
		}
	}
}

// netDecisions is what the decisions' file has now.
func netDecisions(t *testing.T, l *netLab) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(l.dir), "undo", "decisions.jsonl"))
	check(t, err)
	decisions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var d messages.Decision
		check(t, json.Unmarshal([]byte(line), &d))
		if d.Kind == "session" {
			continue
		}
		if d.Step == 0 || d.Kind != messages.KindNetwork || d.Session == "" {
			t.Errorf("%+v", d)
		}
		decisions[d.Message] = d.Decision + " by " + d.By
	}
	return decisions
}

func netInspect(t *testing.T, l *netLab) {
	tree, err := l.s.Inspect(t.Context())
	check(t, err)
	i := slices.IndexFunc(tree.Root.Children, func(n api.TreeNode) bool { return n.Name == "network" })
	if i < 0 {
		t.Fatalf("%+v", tree.Root)
	}
	n := tree.Root.Children[i]
	if n.State != "ask" || n.Facts["denied"] == "0" || n.Facts["allowed"] == "0" || n.Facts["lookups"] == "0" {
		t.Errorf("%+v", n)
	}
	st, err := l.s.Status(t.Context())
	check(t, err)
	if st.Machine["network"] != "10.0.2.15 (policy ask)" {
		t.Errorf("%v", st.Machine)
	}
}
