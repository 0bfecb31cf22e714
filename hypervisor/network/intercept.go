package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// mayIntercept tells whether an address was found by the name of a host for which the
// interceptor is. Which host it is, the greeting says.
func (n *Network) mayIntercept(t policy.Target) bool {
	if n.o.Intercept == nil {
		return false
	}
	return slices.ContainsFunc(n.o.Policy.Names(t.Address.Addr()), func(name string) bool { return n.o.Intercept.Covers(name, t.Address.Port()) })
}

// intercept has the interceptor serve a connection that asks for one of its hosts, and
// copies others.
func (n *Network) intercept(guest *guestConn, outside net.Conn, flow *policy.Flow, t policy.Target, v policy.Verdict) error {
	name, err := guest.greeting()
	if err != nil || !n.o.Intercept.Covers(name, t.Address.Port()) {
		return n.copyTCP(guest, outside, flow, t, v) // which meets the error again
	}
	if v = n.o.Policy.ServerName(v, t, name); !v.Allowed() {
		flow.Overrule(v)
		guest.abort()
		reset(outside)
		return fmt.Errorf("%w: %s", errServerName, v.Domain)
	}
	first := &spare{conn: outside}
	defer first.close()
	return n.o.Intercept.Serve(n.ctx, countedConn{guest, flow}, name, func(ctx context.Context) (net.Conn, error) {
		if c := first.take(); c != nil {
			return c, nil
		}
		return n.dialMore(ctx, name, t.Address)
	})
}

// errTooMany is why an interceptor gets no further connection.
var errTooMany = errors.New("network: too many connections")

// dialMore makes a further connection to a server for one of the guest's. It counts as one
// of the guest's own.
func (n *Network) dialMore(ctx context.Context, name string, to netip.AddrPort) (net.Conn, error) {
	if !n.tcp.take() {
		return nil, errTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, n.o.Limits.DialTimeout)
	defer cancel()
	c, err := n.dialTCP(ctx, name, to)
	if err != nil {
		n.tcp.give()
		return nil, err
	}
	return &slotConn{Conn: c, give: sync.OnceFunc(n.tcp.give)}, nil
}

// slotConn gives its slot back when it is closed.
type slotConn struct {
	net.Conn
	give func()
}

// Close implements [net.Conn].
func (c *slotConn) Close() error {
	defer c.give()
	return c.Conn.Close()
}

// greeting reads until the stream has named a server or is known not to; what was read
// is read again.
func (g *guestConn) greeting() (string, error) {
	var head []byte
	defer func() { g.head = head }()
	chunk := make([]byte, 4<<10)
	for {
		got, err := g.TCPConn.Read(chunk)
		head = append(head, chunk[:got]...)
		name, state := serverName(head)
		switch {
		case state == helloNamed:
			return name, nil
		case state == helloOther, len(head) > maxHello, errors.Is(err, io.EOF):
			return "", nil
		case err != nil:
			return "", err
		}
	}
}

// spare is a connection that is made already.
type spare struct {
	mu   sync.Mutex
	conn net.Conn
}

func (s *spare) take() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conn
	s.conn = nil
	return c
}

func (s *spare) close() {
	if c := s.take(); c != nil {
		_ = c.Close()
	}
}

// countedConn counts what passes.
type countedConn struct {
	net.Conn
	flow *policy.Flow
}

// Read implements [net.Conn].
func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.flow.Sent(n)
	return n, err
}

// Write implements [net.Conn].
func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.flow.Received(n)
	return n, err
}
