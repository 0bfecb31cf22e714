package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

func TestDisabled(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	z := newZone()
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Disabled, Allow: []string{"*", "127.0.0.1"}}}, Options{Resolver: z, Dial: dialTo(at)})
	for _, to := range []netip.AddrPort{g.host(at.Port()), netip.MustParseAddrPort("93.184.216.34:80")} {
		if c, err := g.dial(within(t), to); err == nil {
			c.abort()
			t.Errorf("connected to %s", to)
		}
	}
	for _, name := range []string{"good.test.", HostName + "."} {
		if got, err := g.resolver("udp").LookupNetIP(within(t), "ip4", name); err == nil {
			t.Errorf("%s is %v", name, got)
		}
	}
	if len(z.asked) != 0 {
		t.Errorf("looked up: %v", z.asked)
	}
}

// Open is open, but not for what is the host's.
func TestOpen(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{Dial: dialTo(at)})
	g.mustDial(netip.MustParseAddrPort("93.184.216.34:80"))
	conf := g.network.Guest()
	for _, to := range []netip.AddrPort{
		g.host(at.Port()), netip.AddrPortFrom(conf.DNS, 80), netip.AddrPortFrom(conf.DNS.Next(), 80), // the host, our DNS, nobody
		netip.MustParseAddrPort("169.254.169.254:81"),
	} {
		if c, err := g.dial(within(t), to); err == nil {
			c.abort()
			t.Errorf("connected to %s", to)
			continue
		}
		g.events.wait(t, "deny", func(ev policy.Event) bool { return ev.Kind == policy.EventDeny && ev.Target.Port() == to.Port() })
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() {
			continue
		}
		if c, err := g.dial(within(t), netip.AddrPortFrom(p.Addr(), 80)); err == nil {
			c.abort()
			t.Errorf("connected to the host's own %s", p.Addr())
		}
	}
}

// The host's loopback is the gateway, where it is named: that address, and port.
func TestNamedLoopback(t *testing.T) {
	named, other := echoServer(t, "127.0.0.1:0"), echoServer(t, "127.0.0.1:0")
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Open, Allow: []string{"127.0.0.5", "tcp/" + named.String()}}}, Options{})
	c := g.mustDial(g.host(named.Port()))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if c, err := g.dial(within(t), g.host(other.Port())); err == nil {
		c.abort()
		t.Error("connected to a port that is not named")
	}
}

// asker lets a test decide.
type asker struct {
	asked  chan policy.Question
	answer chan policy.Answer
}

func newAsker() asker {
	return asker{make(chan policy.Question, 10), make(chan policy.Answer, 10)}
}

func (a asker) ask(ctx context.Context, q policy.Question) (policy.Answer, error) {
	a.asked <- q
	select {
	case answer := <-a.answer:
		return answer, nil
	case <-ctx.Done():
		return policy.Answer{}, ctx.Err()
	}
}

// The SYN waits while somebody decides: nothing is connected, nothing refused.
func TestAskHoldsTCP(t *testing.T) {
	for _, allow := range []bool{true, false} {
		l, at := listen(t, "127.0.0.1:0")
		accepted := make(chan struct{}, 1)
		onAccept(t, l, func(c *net.TCPConn) {
			accepted <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
		})
		a := newAsker()
		g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Ask}, Ask: a.ask}, Options{Dial: dialTo(at)})
		to := netip.MustParseAddrPort("93.184.216.34:443")
		done := make(chan error, 1)
		go func() {
			c, err := g.dial(within(t), to)
			if err == nil {
				c.abort()
			}
			done <- err
		}()
		if q := <-a.asked; q.Target.Address != to || q.Target.Protocol != policy.TCP || q.Source.Addr() != g.network.Guest().Address.Addr() {
			t.Errorf("asked %+v", q)
		}
		g.events.kind(t, policy.EventAsk, policy.TCP)
		select {
		case err := <-done:
			t.Errorf("not held: %v", err)
		case <-accepted:
			t.Error("the host was connected before anybody had decided")
		default:
		}
		a.answer <- policy.Answer{Allow: allow}
		if err := <-done; (err == nil) != allow {
			t.Errorf("allow %t: %v", allow, err)
		}
		kind := policy.EventDeny
		if allow {
			kind = policy.EventEnd
			<-accepted
		}
		g.events.kind(t, kind, policy.TCP)
	}
}

func TestAskDeadline(t *testing.T) {
	a := newAsker()
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Ask}, Ask: a.ask, AskTimeout: 10 * time.Millisecond}, Options{})
	if c, err := g.dial(within(t), netip.MustParseAddrPort("93.184.216.34:443")); err == nil {
		c.abort()
		t.Fatal("connected though nobody decided")
	}
	if ev := g.events.kind(t, policy.EventDeny, policy.TCP); ev.Rule != "nobody decided in time" {
		t.Errorf("denied by %q", ev.Rule)
	}
}

// Held datagrams are sent when they were allowed. Their order is not promised:
// while the guest looks up its gateway's address, one may pass another.
func TestAskHoldsUDP(t *testing.T) {
	at := udpEcho(t, "127.0.0.1:0")
	a := newAsker()
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Ask}, Ask: a.ask}, Options{Dial: dialTo(at)})
	c := g.dialUDP(netip.MustParseAddrPort("93.184.216.34:999"))
	for _, text := range []string{"one", "two"} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	<-a.asked
	a.answer <- policy.Answer{Allow: true}
	var echoed []string
	for range 2 {
		got := make([]byte, 10)
		n, err := c.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		echoed = append(echoed, string(got[:n]))
	}
	slices.Sort(echoed)
	if want := []string{"one", "two"}; !slices.Equal(echoed, want) {
		t.Errorf("got %q, want %q", echoed, want)
	}
}

// A lookup is held as well; its answer opens the connection without a question.
func TestAskHoldsLookup(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	a := newAsker()
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Ask}, Ask: a.ask}, Options{Resolver: newZone(), Dial: dialTo(at)})
	a.answer <- policy.Answer{Allow: true}
	got, err := g.resolver("udp").LookupNetIP(within(t), "ip4", "good.test.")
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	if q := <-a.asked; !q.Lookup || q.Domain != "good.test" {
		t.Errorf("asked %+v", q)
	}
	g.mustDial(netip.AddrPortFrom(got[0], 443))
	if len(a.asked) != 0 {
		t.Errorf("asked again: %+v", <-a.asked)
	}
}

// What is held when the cable is cut ends.
func TestCutWhileHeld(t *testing.T) {
	a := newAsker()
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Ask}, Ask: a.ask}, Options{})
	var dialing sync.WaitGroup
	ctx, cancel := context.WithCancel(within(t))
	dialing.Go(func() { _, _ = g.dial(ctx, netip.MustParseAddrPort("93.184.216.34:443")) })
	<-a.asked
	g.end(nil)
	cancel()
	dialing.Wait()
}

// An address that an allowed name opened is closed to the names that share it.
func TestTLSServerName(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	seen := make(chan string, 10)
	onAccept(t, l, func(c *net.TCPConn) {
		server := tls.Server(c, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			seen <- h.ServerName
			return nil, errors.New("that is all")
		}})
		_ = server.Handshake()
	})
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test", "*.also.test"}}}, Options{Resolver: newZone(), Dial: dialTo(at)})
	if _, err := g.resolver("udp").LookupNetIP(within(t), "ip4", "good.test."); err != nil {
		t.Fatal(err)
	}
	greet := func(name string) {
		c := g.mustDial(netip.MustParseAddrPort("93.184.216.34:443"))
		_ = tls.Client(c, &tls.Config{ServerName: name}).HandshakeContext(within(t))
	}
	greet("other.test")
	ev := g.events.kind(t, policy.EventDeny, policy.TCP)
	if ev.Domain != "other.test" || ev.Flow == 0 {
		t.Errorf("denied: %+v", ev)
	}
	greet("www.also.test")
	greet("good.test")
	if got := <-seen; got != "www.also.test" {
		t.Errorf("the first name that reached the server is %q", got)
	}
	if got := <-seen; got != "good.test" {
		t.Errorf("the second is %q", got)
	}
}

// A greeting that is too long to find the name in it is not passed on.
func TestTLSGreetingWithoutEnd(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	onAccept(t, l, func(c *net.TCPConn) {
		if n, _ := c.Read(make([]byte, 1)); n > 0 {
			t.Error("it reached the server")
		}
	})
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test"}}}, Options{Resolver: newZone(), Dial: dialTo(at)})
	if _, err := g.resolver("udp").LookupNetIP(within(t), "ip4", "good.test."); err != nil {
		t.Fatal(err)
	}
	c := g.mustDial(netip.MustParseAddrPort("93.184.216.34:443"))
	greeting := make([]byte, 2*maxHello)
	for i := 0; i+5 < len(greeting); i += 5 + 1<<14 {
		copy(greeting[i:], []byte{22, 3, 1, 0x40, 0})
	}
	copy(greeting[5:], []byte{1, 1, 0xff, 0})
	_, _ = c.Write(greeting)
	g.events.kind(t, policy.EventDeny, policy.TCP)
}

// A server that speaks first is not kept waiting for a greeting.
func TestServerSpeaksFirst(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	onAccept(t, l, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("SSH-2.0"))
		_, _ = io.Copy(c, c)
	})
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test"}}}, Options{Resolver: newZone(), Dial: dialTo(at)})
	if _, err := g.resolver("udp").LookupNetIP(within(t), "ip4", "good.test."); err != nil {
		t.Fatal(err)
	}
	c := g.mustDial(netip.MustParseAddrPort("93.184.216.34:22"))
	got := make([]byte, 7)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "SSH-2.0" {
		t.Fatalf("%q, %v", got, err)
	}
	// The first byte may be TLS's by chance.
	if _, err := c.Write([]byte{22, 1, 2, 3, 4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || got[0] != 22 {
		t.Fatalf("%q, %v", got, err)
	}
}

// hello is what a TLS client says first.
func hello(name string) []byte {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _ = tls.Client(theirs, &tls.Config{ServerName: name}).Handshake(); theirs.Close() }()
	var b []byte
	for {
		chunk := make([]byte, 4096)
		n, err := ours.Read(chunk)
		b = append(b, chunk[:n]...)
		if len(b) >= 5 && len(b) >= 5+int(b[3])<<8+int(b[4]) || err != nil {
			return b
		}
	}
}
