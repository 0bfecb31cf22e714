package network

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// dialMany is an interceptor that makes many connections for one of the guest's.
type dialMany struct{ done chan int }

func (dialMany) Covers(string, uint16) bool        { return true }
func (dialMany) Trust() (file, bundle string)      { return "", "" }
func (dialMany) Environment(env []string) []string { return env }

func (d dialMany) Serve(ctx context.Context, guest net.Conn, _ string, dial func(context.Context) (net.Conn, error)) error {
	defer guest.Close()
	for range 2 { // what was closed counts no more
		made := 0
		var all []net.Conn
		for range 10 {
			c, err := dial(ctx)
			if errors.Is(err, errTooMany) {
				break
			}
			if err != nil {
				return err
			}
			all = append(all, c)
			made++
		}
		for _, c := range all {
			_ = c.Close()
			_ = c.Close() // once more does nothing
		}
		d.done <- made
	}
	return nil
}

// TestInterceptorsConnectionsCount: connections that an interceptor makes count as the guest's.
func TestInterceptorsConnectionsCount(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	onAccept(t, l, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) })
	d := dialMany{make(chan int, 2)}
	g := boot(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test"}}}, Options{
		Limits: Limits{TCP: 4}, Intercept: d, Resolver: newZone(), Dial: dialTo(at),
	})
	if _, err := g.resolver("udp").LookupNetIP(within(t), "ip4", "good.test."); err != nil {
		t.Fatal(err)
	}
	c := g.mustDial(netip.MustParseAddrPort("93.184.216.34:443"))
	greeted := make(chan struct{})
	go func() { // nobody answers
		defer close(greeted)
		_ = tls.Client(c, &tls.Config{ServerName: "good.test"}).HandshakeContext(within(t))
	}()
	// The guest's own is one of four, and the first connection is a part of it.
	if first, second := <-d.done, <-d.done; first != 4 || second != 3 {
		t.Errorf("%d, then %d connections were made", first, second)
	}
	<-greeted
}
