package policy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// clock is a test's.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func engine(t testing.TB, mode Mode, o Options, rules ...string) (*Engine, *clock) {
	t.Helper()
	c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	o.Mode, o.Allow, o.Now = mode, rules, c.Now
	if o.HostAddrs == nil {
		o.HostAddrs = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.168.7.7")}, nil }
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, c
}

func tcpTo(to string) Target { return Target{TCP, netip.MustParseAddrPort(to)} }

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestRulesThatAreWrong(t *testing.T) {
	for _, text := range []string{
		"", " ", "10.0.0.1/8", "10.0.0.300", "10.0.0.0/40", "a b", "example.com:", "example.com:0", "example.com:65536", "example.com:9-8",
		"icmp/10.0.0.1:80", "[::1", "[::1]80", "[::1]:", "::ffff:10.0.0.0/120", "fe80::1%eth0", "exa*mple.com", "*.", "-.*", "http://example.com",
		"a..b", strings.Repeat("a", 64) + ".com", "tcp/", "*:x",
	} {
		if r, err := ParseRule(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("ParseRule(%q) = %+v, %v; want an error", text, r, err)
		}
	}
}

func TestAllowlist(t *testing.T) {
	for _, c := range []struct {
		rule    string
		allowed []string
		denied  []string
	}{
		{"93.184.216.34", []string{"93.184.216.34:1", "[::ffff:93.184.216.34]:80"}, []string{"93.184.216.35:1"}},
		{"10.0.0.0/8:80", []string{"10.1.2.3:80"}, []string{"10.1.2.3:81", "11.0.0.1:80"}},
		{"10.0.0.0/8:80-90", []string{"10.1.2.3:80", "10.1.2.3:90"}, []string{"10.1.2.3:79", "10.1.2.3:91"}},
		{"udp/10.0.0.1", nil, []string{"10.0.0.1:80"}},
		{"tcp/10.0.0.1", []string{"10.0.0.1:80"}, nil},
		{"2001:db8::/32", []string{"[2001:db8::1]:80"}, []string{"[2001:db9::1]:80"}},
		{"[2001:db8::1]:80", []string{"[2001:db8::1]:80"}, []string{"[2001:db8::1]:81"}},
		{"*", []string{"1.1.1.1:53", "[2606:4700::1]:443"}, nil},
		{"example.com", nil, []string{"93.184.216.34:80"}},
	} {
		e, _ := engine(t, Allowlist, Options{}, c.rule)
		for _, to := range c.allowed {
			if v := e.Peek(tcpTo(to)); !v.Allowed() || v.Rule != c.rule {
				t.Errorf("rule %s, to %s: %+v, want allowed by it", c.rule, to, v)
			}
		}
		for _, to := range c.denied {
			if v := e.Peek(tcpTo(to)); v.Action != Deny {
				t.Errorf("rule %s, to %s: %+v, want denied", c.rule, to, v)
			}
		}
	}
}

// What is the host's, or no host at all, is reached by no wide rule and in no mode.
func TestProtected(t *testing.T) {
	targets := []string{
		"127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "169.254.169.254:80", "169.254.0.9:1", "[fe80::1]:80",
		"[fd00:ec2::254]:80", "100.100.100.200:80", "168.63.129.16:80", "192.168.7.7:22", "0.0.0.0:80", "[::]:80", "224.0.0.251:5353",
		"255.255.255.255:67", "[ff02::1]:80", "[64:ff9b::7f00:1]:80", "[2002:7f00:1::]:80", "[64:ff9b::a9fe:a9fe]:80", "[::127.0.0.1]:80",
	}
	asked := func(context.Context, Question) (Answer, error) { return Answer{Allow: true}, nil }
	engines := map[string]*Engine{}
	engines["open"], _ = engine(t, Open, Options{})
	engines["everything"], _ = engine(t, Allowlist, Options{}, "*", "0.0.0.0/0", "::/0", "192.168.0.0/16", "126.0.0.0/7", "evil.test")
	engines["ask"], _ = engine(t, Ask, Options{Ask: asked})
	for name, e := range engines {
		for _, to := range targets {
			if v := e.Connect(context.Background(), tcpTo(to), netip.AddrPort{}); v.Allowed() || v.Rule == "" {
				t.Errorf("%s: to %s: %+v, want denied with a reason", name, to, v)
			}
		}
	}
	named, _ := engine(t, Open, Options{}, "127.0.0.1:80", "169.254.169.254", "192.168.7.7", "fe80::/64", "::1")
	for to, want := range map[string]Action{
		"127.0.0.1:80": Allow, "127.0.0.1:81": Deny, "127.0.0.2:80": Deny, "169.254.169.254:80": Allow, "169.254.169.253:80": Deny,
		"192.168.7.7:22": Allow, "[fe80::1]:1": Allow, "[fe80:0:0:1::1]:1": Deny, "[::1]:9": Allow,
	} {
		if v := named.Peek(tcpTo(to)); v.Action != want {
			t.Errorf("named: to %s: %+v, want %s", to, v, want)
		}
	}
}

// A datagram to everybody on the host's network is one to the host, too.
func TestBroadcastIsTheHosts(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Network: Network{Mode: Open}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Bits() > 30 {
			continue
		}
		last := p.Masked().Addr()
		for next := last; p.Contains(next); next = next.Next() {
			if last = next; p.Bits() < 16 { // the loopback's, which is protected anyway
				break
			}
		}
		v := e.Peek(Target{Protocol: UDP, Address: netip.AddrPortFrom(last, 5353)})
		if v.Allowed() {
			t.Errorf("%s of %s: %+v", last, p, v)
		}
	}
}

// The host's addresses change; when they cannot be listed the old ones stand.
func TestOwnAddressesAreLookedAtAgain(t *testing.T) {
	own, fail := addrs("192.168.7.7"), error(nil)
	e, clock := engine(t, Open, Options{HostAddrs: func() ([]netip.Addr, error) { return own, fail }})
	check := func(to string, want Action) {
		t.Helper()
		if v := e.Peek(tcpTo(to)); v.Action != want {
			t.Errorf("%s: %+v, want %s", to, v, want)
		}
	}
	check("192.168.7.7:1", Deny)
	check("192.168.7.8:1", Allow)
	own = addrs("192.168.7.8")
	clock.add(ownFor)
	check("192.168.7.7:1", Allow)
	check("192.168.7.8:1", Deny)
	fail = errors.New("no list")
	clock.add(ownFor)
	check("192.168.7.8:1", Deny)
}

func TestDisabledAndClosed(t *testing.T) {
	e, _ := engine(t, Disabled, Options{}, "*", "127.0.0.1")
	open, _ := engine(t, Open, Options{})
	open.Close()
	for _, e := range []*Engine{e, open} {
		if v := e.Connect(context.Background(), tcpTo("1.1.1.1:1"), netip.AddrPort{}); v.Allowed() {
			t.Errorf("%s: connect: %+v", e.Mode(), v)
		}
		if v := e.Lookup(context.Background(), "example.com", netip.AddrPort{}); v.Allowed() {
			t.Errorf("%s: lookup: %+v", e.Mode(), v)
		}
	}
}

func TestNames(t *testing.T) {
	e, _ := engine(t, Allowlist, Options{}, "example.com:443", "*.pypi.org")
	for name, want := range map[string]Action{
		"example.com": Allow, "EXAMPLE.com.": Allow, "www.example.com": Deny, "notexample.com": Deny, "pypi.org": Deny, "a.b.pypi.org": Allow,
		"xpypi.org": Deny, ".pypi.org": Deny, "": Deny, "exfil..pypi.org": Deny, "a b.pypi.org": Deny, strings.Repeat("a", 64) + ".pypi.org": Deny,
	} {
		if v := e.Lookup(context.Background(), name, netip.AddrPort{}); v.Action != want {
			t.Errorf("lookup of %q: %+v, want %s", name, v, want)
		}
	}
}

// An answer opens its addresses for the rule's ports, until it is forgotten.
func TestAnswersBecomeAddressRules(t *testing.T) {
	e, clock := engine(t, Allowlist, Options{}, "example.com:443")
	target := tcpTo("93.184.216.34:443")
	if e.Peek(target).Allowed() {
		t.Fatal("allowed before anything was looked up")
	}
	v := e.Lookup(context.Background(), "Example.com.", netip.AddrPort{})
	told := e.Learn(v, addrs("93.184.216.34"), 10*time.Minute)
	if len(told) != 1 {
		t.Fatalf("told %v", told)
	}
	v = e.Peek(target)
	if !v.Allowed() || !v.ByName || v.Domain != "example.com" || v.Rule != "example.com:443" {
		t.Fatalf("after the answer: %+v", v)
	}
	if v := e.Peek(tcpTo("93.184.216.34:80")); v.Allowed() || v.Domain != "example.com" {
		t.Errorf("another port: %+v", v)
	}
	if v := e.Peek(Target{UDP, target.Address}); v.Allowed() {
		t.Errorf("QUIC by a rule that does not say udp: %+v", v)
	}
	clock.add(10*time.Minute - time.Second)
	if !e.Peek(target).Allowed() {
		t.Error("forgotten too early")
	}
	clock.add(time.Second)
	if v := e.Peek(target); v.Allowed() {
		t.Errorf("remembered for too long: %+v", v)
	}
	// A short TTL is stretched: programs keep addresses for longer.
	e.Learn(Verdict{Action: Allow, Domain: "example.com"}, addrs("93.184.216.34"), time.Second)
	clock.add(4 * time.Minute)
	if !e.Peek(target).Allowed() {
		t.Error("an answer of a second is forgotten before its programs have connected")
	}
}

// A name cannot be pointed at the host.
func TestRebinding(t *testing.T) {
	for _, mode := range []Mode{Open, Allowlist} {
		e, _ := engine(t, mode, Options{}, "evil.test")
		v := e.Lookup(context.Background(), "evil.test", netip.AddrPort{})
		told := e.Learn(v, addrs("127.0.0.1", "169.254.169.254", "192.168.7.7", "0.0.0.0", "::1", "::ffff:127.0.0.1", "93.184.216.34"), time.Hour)
		if len(told) != 1 || told[0] != netip.MustParseAddr("93.184.216.34") {
			t.Errorf("%s: told %v", mode, told)
		}
		for _, to := range []string{"127.0.0.1:80", "169.254.169.254:80", "192.168.7.7:80"} {
			if v := e.Peek(tcpTo(to)); v.Allowed() {
				t.Errorf("%s: to %s: %+v", mode, to, v)
			}
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	e, clock := engine(t, Allowlist, Options{MaxRemembered: 100}, "*.many.test")
	v := Verdict{Action: Allow, Domain: "a.many.test"}
	for i := range 1000 {
		clock.add(time.Second)
		e.Learn(v, []netip.Addr{netip.AddrFrom4([4]byte{20, 0, byte(i >> 8), byte(i)})}, 0)
	}
	if n := len(e.learnt.m); n > 100 {
		t.Errorf("%d addresses are remembered, of 100", n)
	}
	if !e.Peek(tcpTo("20.0.3.231:1")).Allowed() {
		t.Error("the newest answer was thrown away")
	}
	for i := range 1000 {
		e.Learn(Verdict{Action: Allow, Domain: fmt.Sprintf("n%d.many.test", i)}, addrs("20.1.1.1"), 0)
	}
	if names, _ := e.learnt.get(netip.MustParseAddr("20.1.1.1"), clock.Now()); len(names) > maxNames {
		t.Errorf("%d names are remembered for one address", len(names))
	}
}

func TestServerName(t *testing.T) {
	e, _ := engine(t, Allowlist, Options{}, "good.test", "*.also.test", "10.9.9.9")
	e.Learn(e.Lookup(context.Background(), "good.test", netip.AddrPort{}), addrs("20.0.0.1"), time.Hour)
	target := tcpTo("20.0.0.1:443")
	v := e.Peek(target)
	for name, want := range map[string]Action{"good.test": Allow, "GOOD.test": Allow, "x.also.test": Allow, "other.test": Deny, "also.test": Deny, "": Allow,
		"x!.other.test": Deny, "*.other.test": Deny, "good.test..": Deny} {
		if got := e.ServerName(v, target, name); got.Action != want {
			t.Errorf("server name %q: %+v, want %s", name, got, want)
		}
	}
	byAddress := e.Peek(tcpTo("10.9.9.9:443"))
	if got := e.ServerName(byAddress, tcpTo("10.9.9.9:443"), "other.test"); !got.Allowed() {
		t.Errorf("a flow that its address opened is closed by a name: %+v", got)
	}
}
