package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// zone is a resolver with names of a test's; it keeps what it was asked.
type zone struct {
	names map[string][]netip.Addr
	ttl   time.Duration

	mu    sync.Mutex
	asked []string
}

func (z *zone) LookupIPv4(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	return z.lookup(name, netip.Addr.Is4)
}

func (z *zone) LookupIPv6(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	return z.lookup(name, netip.Addr.Is6)
}

func (z *zone) lookup(name string, family func(netip.Addr) bool) ([]netip.Addr, time.Duration, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, name)
	if name == "broken.test" {
		return nil, 0, errors.New("no server")
	}
	var addrs []netip.Addr
	for _, a := range z.names[name] {
		if family(a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return addrs, z.ttl, nil
}

func newZone() *zone {
	return &zone{ttl: 30 * time.Second, names: map[string][]netip.Addr{
		"good.test":  {netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("93.184.216.35")},
		"other.test": {netip.MustParseAddr("93.184.216.36")},
		"evil.test":  {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("93.184.216.37")},
	}}
}

// dialTo is a Dial that has every address at one server.
func dialTo(at netip.AddrPort) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at.String())
	}
}

func TestDNS(t *testing.T) {
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			z := newZone()
			g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test", "evil.test", "missing.test", "broken.test"}}}, Options{Resolver: z})
			r := g.resolver(transport)
			got, err := r.LookupNetIP(within(t), "ip", "Good.test.")
			slices.SortFunc(got, netip.Addr.Compare)
			if err != nil || !slices.Equal(got, z.names["good.test"]) {
				t.Errorf("good: %v, %v", got, err)
			}
			if got, err := r.LookupNetIP(within(t), "ip4", "evil.test."); err != nil || len(got) != 1 || got[0] != netip.MustParseAddr("93.184.216.37") {
				t.Errorf("evil: %v, %v; want only what is not the host's", got, err)
			}
			if got, err := r.LookupNetIP(within(t), "ip4", HostName+"."); err != nil || len(got) != 1 || got[0] != g.network.Guest().Gateway {
				t.Errorf("host: %v, %v", got, err)
			}
			var dns *net.DNSError
			if got, err := r.LookupNetIP(within(t), "ip4", "missing.test."); !errors.As(err, &dns) || !dns.IsNotFound {
				t.Errorf("missing: %v, %v", got, err)
			}
			if got, err := r.LookupNetIP(within(t), "ip4", "broken.test."); !errors.As(err, &dns) || dns.IsNotFound {
				t.Errorf("broken: %v, %v", got, err)
			}
			if got, err := r.LookupNetIP(within(t), "ip4", "secret.other.test."); err == nil {
				t.Errorf("forbidden: %v", got)
			}
			ev := g.events.wait(t, "the refused lookup", func(ev policy.Event) bool { return ev.Kind == policy.EventLookup && ev.Action == policy.Deny })
			if ev.Domain != "secret.other.test" || ev.Rule != "not in the allow list" {
				t.Errorf("refused: %+v", ev)
			}
			z.mu.Lock()
			defer z.mu.Unlock()
			if slices.Contains(z.asked, "secret.other.test") {
				t.Error("the forbidden name was looked up all the same: it has leaked")
			}
		})
	}
}

// A domain rule opens the addresses that our DNS told, and no others.
func TestDomainRule(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test:80"}}}, Options{Resolver: newZone(), Dial: dialTo(at)})
	to := netip.MustParseAddrPort("93.184.216.34:80")
	if c, err := g.dial(within(t), to); err == nil {
		c.abort()
		t.Fatal("connected by an address that nobody had looked up")
	}
	if _, err := g.resolver("udp").LookupNetIP(within(t), "ip4", "good.test."); err != nil {
		t.Fatal(err)
	}
	c := g.mustDial(to)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if ev := g.events.kind(t, policy.EventStart, policy.TCP); ev.Domain != "good.test" || ev.Rule != "good.test:80" {
		t.Errorf("start: %+v", ev)
	}
	if c, err := g.dial(within(t), netip.AddrPortFrom(to.Addr(), 81)); err == nil {
		c.abort()
		t.Error("connected to another port")
	}
}

// Messages that are no questions for an address.
func TestDNSOtherMessages(t *testing.T) {
	z := newZone()
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{Resolver: z})
	ask := func(change func(*dnsmessage.Message)) (dnsmessage.Message, bool) {
		q := dnsmessage.Message{Header: dnsmessage.Header{ID: 9, RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("good.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
		change(&q)
		wire, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		reply := s.network.answer(context.Background(), wire, netip.AddrPort{})
		if reply == nil {
			return m, false
		}
		if err := m.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		return m, true
	}
	if m, ok := ask(func(*dnsmessage.Message) {}); !ok || len(m.Answers) != 2 || m.Answers[0].Header.TTL != 30 || m.ID != 9 || !m.Response {
		t.Errorf("a question: %+v", m)
	}
	if m, ok := ask(func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeAAAA }); !ok || m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 0 {
		t.Errorf("AAAA: %+v", m)
	}
	if m, ok := ask(func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }); !ok || m.RCode != dnsmessage.RCodeNotImplemented {
		t.Errorf("another class: %+v", m)
	}
	if m, ok := ask(func(m *dnsmessage.Message) { m.Questions = nil }); !ok || m.RCode != dnsmessage.RCodeFormatError {
		t.Errorf("no question: %+v", m)
	}
	if m, ok := ask(func(m *dnsmessage.Message) { m.Response = true }); ok {
		t.Errorf("a reply is answered: %+v", m)
	}
	// More addresses than fit: the answer still does.
	for i := range 100 {
		z.names["good.test"] = append(z.names["good.test"], netip.AddrFrom4([4]byte{20, 0, 0, byte(i)}))
	}
	if m, ok := ask(func(*dnsmessage.Message) {}); !ok || len(m.Answers) != maxAnswers {
		t.Errorf("%d answers", len(m.Answers))
	}
}
