package network

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// udpEcho answers each datagram with itself.
func udpEcho(t testing.TB, addr string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestUDP(t *testing.T) {
	at := udpEcho(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{})
	c := g.dialUDP(g.host(at.Port()))
	// The last is longer than the MTU: fragments in both directions.
	for _, size := range []int{1, 1472, 9000} {
		want := bytes.Repeat([]byte{'x'}, size)
		if _, err := c.Write(want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64<<10)
		n, err := c.Read(got)
		if err != nil || !bytes.Equal(got[:n], want) {
			t.Fatalf("%d bytes came back of %d, %v", n, size, err)
		}
	}
	if live := g.engine.Flows(); len(live) != 1 || live[0].Sent < 1473 || live[0].Protocol != policy.UDP {
		t.Errorf("live: %+v", live)
	}
}

func TestUDPIdle(t *testing.T) {
	at := udpEcho(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{Limits: Limits{UDPIdle: 10 * time.Millisecond}})
	if _, err := g.dialUDP(g.host(at.Port())).Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if end := g.events.kind(t, policy.EventEnd, policy.UDP); end.Error != "" {
		t.Errorf("end: %+v", end)
	}
}

func TestUDPDenied(t *testing.T) {
	at := udpEcho(t, "127.0.0.1:0")
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{})
	c := g.dialUDP(g.host(at.Port()))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	// The guest is told by ICMP, not left to wait.
	select {
	case err := <-c.failed:
		if !strings.Contains(err, "refused") {
			t.Errorf("told %q, want refused", err)
		}
	case <-time.After(patience):
		t.Error("the guest was told nothing")
	}
	if ev := g.events.kind(t, policy.EventDeny, policy.UDP); ev.Rule != "protected: loopback" {
		t.Errorf("denied by %q", ev.Rule)
	}
}

func TestUDPLimit(t *testing.T) {
	at := udpEcho(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{Limits: Limits{UDP: 1}})
	if _, err := g.dialUDP(g.host(at.Port())).Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	g.events.kind(t, policy.EventStart, policy.UDP)
	if _, err := g.dialUDP(g.host(at.Port())).Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if ev := g.events.kind(t, policy.EventDeny, policy.UDP); ev.Rule != "too many flows" {
		t.Errorf("denied by %q", ev.Rule)
	}
}

// ping sends an echo request from inside and returns when it was answered.
func (g *guest) ping(to netip.Addr, payload string) error {
	c, err := g.dialICMP(to)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	request := append([]byte{8, 0, 0, 0, 0, 0, 0, 7}, payload...)
	if _, err := c.Write(request); err != nil {
		return err
	}
	got := make([]byte, 64<<10)
	n, err := c.Read(got)
	if err != nil {
		return err
	}
	if n != len(request) || got[0] != 0 || got[7] != 7 || string(got[8:n]) != payload {
		return errors.New("not the answer: " + string(got[:n]))
	}
	return nil
}

func TestHostPing(t *testing.T) {
	require.Root(t) // or a sysctl that containers do not have
	if err := hostPing(within(t), netip.MustParseAddr("127.0.0.9"), 7, []byte("are you there?")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := hostPing(ctx, netip.MustParseAddr("127.0.0.9"), 7, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestPingIsForwarded(t *testing.T) {
	pinged := make(chan netip.Addr, 1)
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"icmp/93.184.216.34"}}}, Options{
		Ping: func(_ context.Context, to netip.Addr, seq uint16, payload []byte) error {
			if seq != 7 || len(payload) != 4000 {
				t.Errorf("sequence %d, %d bytes of payload", seq, len(payload))
			}
			pinged <- to
			return nil
		},
	})
	if err := g.ping(netip.MustParseAddr("93.184.216.34"), strings.Repeat("x", 4000)); err != nil {
		t.Fatal(err)
	}
	if to := <-pinged; to != netip.MustParseAddr("93.184.216.34") {
		t.Errorf("pinged %s", to)
	}
	if err := g.ping(g.network.Guest().Gateway, "gateway"); err != nil {
		t.Errorf("the gateway: %v", err)
	}
}

// Nothing may answer in another's place.
func TestPingDenied(t *testing.T) {
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{
		Ping: func(context.Context, netip.Addr, uint16, []byte) error { t.Error("pinged"); return nil },
	})
	c, err := g.dialICMP(netip.MustParseAddr("169.254.169.254"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{8, 0, 0, 0, 0, 0, 0, 1, 'x'}); err != nil {
		t.Fatal(err)
	}
	if ev := g.events.kind(t, policy.EventDeny, policy.ICMP); ev.Rule != "protected: link-local, metadata" {
		t.Errorf("denied by %q", ev.Rule)
	}
	// A ping that is answered came after the denied one: so that had no answer.
	if err := g.ping(g.network.Guest().Gateway, "gateway"); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := c.Read(make([]byte, 100)); err == nil {
		t.Errorf("the denied ping was answered, %d bytes", n)
	}
}
