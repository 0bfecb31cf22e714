package actors

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// TestPublisher: ends of streams pass in both directions, a connection that nobody
// answers inside is reset, and close ends what is open.
func TestPublisher(t *testing.T) {
	inside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	go func() {
		for {
			c, err := inside.Accept()
			if err != nil {
				return
			}
			go func() { // sends back what it got, when it has all of it
				defer c.Close()
				all, _ := io.ReadAll(c)
				_, _ = c.Write(all)
			}()
		}
	}()
	any := netip.MustParseAddrPort("127.0.0.1:0")
	p, err := newPublisher([]policy.Port{{Listen: any, Guest: 80}, {Listen: any, Guest: 81}}, func(ctx context.Context, port uint16) (net.Conn, error) {
		if port != 80 {
			return nil, errors.New("nobody listens")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", inside.Addr().String())
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	connect := func() *net.TCPConn {
		c, err := net.Dial("tcp", p.listeners[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.(*net.TCPConn)
	}
	for range 3 {
		c := connect()
		if _, err := c.Write([]byte("question")); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != "question" {
			t.Errorf("%q, %v", got, err)
		}
	}
	// The reset may come before Dial has looked at the connection.
	if c, err := net.Dial("tcp", p.listeners[1].Addr().String()); err == nil {
		if got, err := io.ReadAll(c); err == nil {
			t.Errorf("nobody is there, and the stream ended in order: %q", got)
		}
		_ = c.Close()
	}
	open := connect()
	if _, err := open.Write([]byte("unfinished")); err != nil {
		t.Error(err)
	}
	taken := p.listeners[0].Addr().(*net.TCPAddr).AddrPort()
	if second, err := newPublisher([]policy.Port{{Listen: any, Guest: 1}, {Listen: taken, Guest: 80}}, nil, p.log); err == nil {
		second.close()
		t.Error("a port was published twice")
	}
	p.close()
	if got, err := io.ReadAll(open); err == nil {
		t.Errorf("the connection ended in order: %q", got)
	}
	if c, err := net.Dial("tcp", taken.String()); err == nil {
		_ = c.Close()
		t.Error("somebody listens still")
	}
}
