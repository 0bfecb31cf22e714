package network

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func loopback(t testing.TB) policy.Options {
	return policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"127.0.0.0/8"}}}
}

func echoServer(t testing.TB, addr string) netip.AddrPort {
	l, at := listen(t, addr)
	onAccept(t, l, func(c *net.TCPConn) { _, _ = io.Copy(c, c); _ = c.CloseWrite() })
	return at
}

func TestTCPHalfCloseFromTheGuest(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{})
	c := g.mustDial(g.host(at.Port()))
	if _, err := c.Write([]byte("to and fro")); err != nil {
		t.Fatal(err)
	}
	// The server answers to the end only when it has seen ours.
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "to and fro" {
		t.Fatalf("got %q, %v", got, err)
	}
	_ = c.Close()
	start, end := g.events.kind(t, policy.EventStart, policy.TCP), g.events.kind(t, policy.EventEnd, policy.TCP)
	if start.Target != netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port()) || start.Rule != "127.0.0.0/8" || start.Action != policy.Allow {
		t.Errorf("start: %+v", start)
	}
	if end.Flow != start.Flow || end.Sent != 10 || end.Received != 10 || end.Error != "" {
		t.Errorf("end: %+v", end)
	}
}

func TestTCPHalfCloseFromTheHost(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	heard := make(chan string, 1)
	onAccept(t, l, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("bye"))
		_ = c.CloseWrite()
		rest, _ := io.ReadAll(c)
		heard <- string(rest)
	})
	g := boot(t, loopback(t), Options{})
	c := g.mustDial(g.host(at.Port()))
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := c.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got := <-heard; got != "still here" {
		t.Fatalf("the host's server heard %q", got)
	}
}

func TestTCPResetFromTheHost(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	onAccept(t, l, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	})
	g := boot(t, loopback(t), Options{})
	c := g.mustDial(g.host(at.Port()))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("read after the host's reset: %v, want a reset", err)
	}
	if end := g.events.kind(t, policy.EventEnd, policy.TCP); end.Error == "" {
		t.Errorf("the end tells of no reset: %+v", end)
	}
}

func TestTCPResetFromTheGuest(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	heard := make(chan error, 1)
	onAccept(t, l, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		heard <- err
	})
	g := boot(t, loopback(t), Options{})
	c := g.mustDial(g.host(at.Port()))
	c.abort()
	if err := <-heard; !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the host's server read %v, want a reset", err)
	}
}

func TestTCPRefusedByTheHost(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	_ = l.Close()
	g := boot(t, loopback(t), Options{})
	if c, err := g.dial(within(t), g.host(at.Port())); err == nil {
		c.abort()
		t.Fatal("connected to a closed port")
	}
	if end := g.events.kind(t, policy.EventEnd, policy.TCP); end.Error == "" {
		t.Errorf("the end has no error: %+v", end)
	}
}

// A cable that is cut resets what went through it.
func TestTCPCutCable(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	heard := make(chan error, 1)
	onAccept(t, l, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		heard <- err
	})
	g := boot(t, loopback(t), Options{})
	c := g.mustDial(g.host(at.Port()))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	g.events.kind(t, policy.EventStart, policy.TCP)
	g.end(nil)
	if err := <-heard; !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the host's server read %v, want a reset", err)
	}
	g.events.kind(t, policy.EventEnd, policy.TCP)
}

// The larger one has large frames: with the race detector small ones take a minute.
func TestTCP100MBBothWays(t *testing.T) { throughAndBack(t, int64(require.Fewer(100<<20)), 65520) }
func TestTCP8MBBothWays(t *testing.T)   { throughAndBack(t, 8<<20, 1500) }

func throughAndBack(t *testing.T, size int64, mtu int) {
	at := echoServer(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{MTU: mtu})
	c := g.mustDial(g.host(at.Port()))
	sent, got := sha256.New(), sha256.New()
	var writer sync.WaitGroup
	writer.Go(func() {
		data := rand.NewChaCha8([32]byte{1})
		if _, err := io.Copy(io.MultiWriter(c, sent), io.LimitReader(data, size)); err != nil {
			t.Error(err)
		}
		_ = c.CloseWrite()
	})
	n, err := io.Copy(got, c)
	writer.Wait()
	if n != size || err != nil || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Fatalf("%d bytes came back of %d (%v), equal: %t", n, size, err, bytes.Equal(sent.Sum(nil), got.Sum(nil)))
	}
	_ = c.Close()
	if end := g.events.kind(t, policy.EventEnd, policy.TCP); end.Sent != uint64(size) || end.Received != uint64(size) {
		t.Errorf("counted %d and %d bytes, want %d", end.Sent, end.Received, size)
	}
}

func TestTCPManyFlowsAtATime(t *testing.T) {
	const flows = 200
	at := echoServer(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{})
	var all sync.WaitGroup
	arrived := make(chan struct{}, flows)
	together := make(chan struct{})
	for i := range flows {
		all.Go(func() {
			c, err := g.dial(within(t), g.host(at.Port()))
			arrived <- struct{}{}
			if err != nil {
				t.Errorf("flow %d: %v", i, err)
				return
			}
			<-together
			defer c.Close()
			want := bytes.Repeat([]byte(fmt.Sprintf("flow %d;", i)), 1000)
			go func() {
				_, _ = c.Write(want)
				_ = c.CloseWrite()
			}()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
				t.Errorf("flow %d: %d bytes came back of %d, %v", i, len(got), len(want), err)
			}
		})
	}
	for range flows {
		<-arrived
	}
	if live := len(g.engine.Flows()); live != flows {
		t.Errorf("%d flows are live, want %d", live, flows)
	}
	close(together)
	all.Wait()
}

func TestTCPLimit(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	g := boot(t, loopback(t), Options{Limits: Limits{TCP: 2}})
	g.mustDial(g.host(at.Port()))
	first := g.mustDial(g.host(at.Port()))
	if c, err := g.dial(within(t), g.host(at.Port())); err == nil {
		c.abort()
		t.Fatal("a third connection, where two are allowed")
	}
	g.events.wait(t, "too many", func(ev policy.Event) bool { return ev.Kind == policy.EventDeny && ev.Rule == "too many connections" })
	first.abort()
	g.events.kind(t, policy.EventEnd, policy.TCP)
	// The place is given back just after the event.
	for {
		if c, err := g.dial(within(t), g.host(at.Port())); err == nil {
			c.abort()
			return
		}
	}
}

// A flow whose server has said everything and hung up counts until the guest has taken it:
// else a guest that reads nothing could have us keep any number of buffers.
func TestTCPEndsWhenTheGuestHasTakenIt(t *testing.T) {
	const window, size = 64 << 10, 200 << 10 // more than the guest's window takes, less than our buffer
	l, at := listen(t, "127.0.0.1:0")
	hungUp := make(chan struct{})
	var once sync.Once
	onAccept(t, l, func(c *net.TCPConn) {
		_, _ = c.Write(make([]byte, size))
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		once.Do(func() { close(hungUp) })
	})
	g := boot(t, loopback(t), Options{Limits: Limits{TCP: 1}})
	buffer := tcpip.TCPReceiveBufferSizeRangeOption{Min: window, Default: window, Max: window}
	if err := g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &buffer); err != nil {
		t.Fatal(err)
	}
	c := g.mustDial(g.host(at.Port()))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-hungUp
	for range 50 {
		if other, err := g.dial(within(t), g.host(at.Port())); err == nil {
			other.abort()
			t.Fatal("the flow has ended, and its buffer is full")
		}
	}
	if n, err := io.Copy(io.Discard, c); n != size || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if end := g.events.kind(t, policy.EventEnd, policy.TCP); end.Received != size || end.Error != "" {
		t.Errorf("end: %+v", end)
	}
}
