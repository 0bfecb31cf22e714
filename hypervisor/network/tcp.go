package network

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// copyBytes is the size of the buffers between the two ends of a flow: whole segments of
// a jail's card, whose MTU is 65520, so that what was read is not sent on with a small
// frame at its end.
const copyBytes = 2 * (65520 - 80)

// largeBytes is that of flows that have large buffers.
const largeBytes = 8 * copyBytes

// guestConn is the guest's end of a TCP flow.
type guestConn struct {
	*gonet.TCPConn
	ep   tcpip.Endpoint
	wq   *waiter.Queue // of ep
	head []byte        // was read already, and comes again
}

// Read implements [net.Conn].
func (g *guestConn) Read(b []byte) (int, error) {
	if len(g.head) > 0 {
		n := copy(b, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	return g.TCPConn.Read(b)
}

// abort sends the guest a reset.
func (g *guestConn) abort() {
	g.ep.Abort()
	_ = g.Close()
}

// acceptTCP is called with each SYN, on a goroutine of its own: the connection
// that it asks for waits until this has returned.
func (n *Network) acceptTCP(r *tcp.ForwarderRequest) {
	if !n.enter() {
		r.Complete(false)
		return
	}
	defer n.work.Done()
	n.openTCP(r)
}

func (n *Network) openTCP(r *tcp.ForwarderRequest) {
	id := r.ID()
	source, to := toAddrPort(id.RemoteAddress, id.RemotePort), toAddrPort(id.LocalAddress, id.LocalPort)
	if n.flood() {
		r.Complete(false) // it comes again
		return
	}
	dns := to == netip.AddrPortFrom(n.guest.DNS, dnsPort)
	var t policy.Target
	var v policy.Verdict
	if !dns {
		if t, v = n.judge(policy.TCP, to); v.Action == policy.Undecided {
			v = n.o.Policy.Connect(n.ctx, t, source)
		}
	}
	if (dns || v.Allowed()) && !n.tcp.take() {
		v, dns = policy.Verdict{Action: policy.Deny, Rule: "too many connections", Domain: v.Domain}, false
	}
	switch {
	case dns:
		defer n.tcp.give()
		if guest, err := n.complete(r); err == nil {
			n.serveDNSStream(guest, source)
		}
	case v.Allowed():
		defer n.tcp.give()
		flow := n.o.Policy.Start(t, source, v)
		flow.End(n.forwardTCP(r, flow, t, v))
	default:
		n.o.Policy.Denied(t, source, v)
		r.Complete(true)
	}
}

// forwardTCP connects to the outside, then to the guest, and copies until both
// directions have ended.
func (n *Network) forwardTCP(r *tcp.ForwarderRequest, flow *policy.Flow, t policy.Target, v policy.Verdict) error {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.Limits.DialTimeout)
	outside, err := n.dialTCP(ctx, v.Domain, t.Address)
	cancel()
	if err != nil {
		r.Complete(true)
		return err
	}
	guest, err := n.complete(r)
	if err != nil {
		reset(outside)
		return err
	}
	stop := context.AfterFunc(n.ctx, func() { guest.abort(); reset(outside) })
	defer stop()
	if n.mayIntercept(t) {
		return n.intercept(guest, outside, flow, t, v)
	}
	return n.copyTCP(guest, outside, flow, t, v)
}

// copyTCP copies until both directions have ended.
func (n *Network) copyTCP(guest *guestConn, outside net.Conn, flow *policy.Flow, t policy.Target, v policy.Verdict) error {
	up := func() error {
		if v.ByName {
			if err := n.forwardHello(outside, guest, flow, t, v); err != nil {
				return err
			}
		}
		large := false
		defer func() {
			if large {
				n.streams.leaveUp()
			}
		}()
		// The network's end is not the end of the guest's stream.
		return cmp.Or(copyCounted(outside, guest, flow.Sent, func() bool {
			large = large || n.streams.takeUp(guest)
			return large
		}), n.ctx.Err())
	}
	down := func() error {
		err := cmp.Or(copyCounted(guest, outside, flow.Received, func() bool { return n.streams.takeDown(guest) }), n.ctx.Err())
		if err == nil {
			n.streams.ending(guest)
			guest.drain()
		}
		n.streams.leaveDown(guest)
		return err
	}
	return splice(guest, outside, up, down)
}

// dialTCP connects to the outside, through a proxy if the host has one for it.
func (n *Network) dialTCP(ctx context.Context, domain string, to netip.AddrPort) (net.Conn, error) {
	if n.o.Upstream != nil {
		if c, err := n.o.Upstream(ctx, domain, to); c != nil || err != nil {
			return c, err
		}
	}
	return n.o.Dial(ctx, "tcp", to.String())
}

// complete makes the handshake with the guest.
func (n *Network) complete(r *tcp.ForwarderRequest) (*guestConn, error) {
	wq := new(waiter.Queue)
	ep, err := r.CreateEndpoint(wq)
	if err != nil {
		r.Complete(true)
		return nil, stackError("handshake", err)
	}
	r.Complete(false)
	// A guest that vanished without a word is noticed.
	ep.SocketOptions().SetKeepAlive(true)
	idle := tcpip.KeepaliveIdleOption(time.Minute)
	if err := ep.SetSockOpt(&idle); err != nil {
		n.log.Debug("keepalive", "error", err.String())
	}
	n.streams.begin(ep)
	return &guestConn{TCPConn: gonet.NewTCPConn(wq, ep), ep: ep, wq: wq}, nil
}

// splice runs both directions. One that ends in order closes its half; one that
// fails resets both ends, as neither may take what it got for complete.
func splice(guest *guestConn, outside net.Conn, up, down func() error) error {
	var once sync.Once
	var failed error
	direction := func(run func() error, closeHalf func() error) {
		err := run()
		if err == nil {
			// Fails only if that end is gone; then the other direction ends too.
			_ = closeHalf()
			return
		}
		once.Do(func() {
			failed = err
			guest.abort()
			reset(outside)
		})
	}
	var other sync.WaitGroup
	other.Go(func() { direction(down, guest.CloseWrite) })
	direction(up, func() error { return closeWrite(outside) })
	other.Wait()
	_ = guest.Close()
	_ = outside.Close()
	return failed
}

// closeWrite closes the half that we write to, or all where there are no halves.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// reset closes a connection so that its peer is told of a failure.
func reset(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}

var (
	buffers      = sync.Pool{New: func() any { return new([copyBytes]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBytes]byte) }}
)

// copyCounted copies until the end of from (nil) or an error, and counts what was
// written. After a read that was at least half of what fits into an ordinary buffer it
// asks whether it may have a large one for the next.
func copyCounted(to io.Writer, from io.Reader, count func(int), mayBeLarge func() bool) error {
	small := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(small)
	var large *[largeBytes]byte
	defer func() {
		if large != nil {
			largeBuffers.Put(large)
		}
	}()
	buf := small[:]
	for {
		got, rerr := from.Read(buf)
		if got > 0 {
			put, err := to.Write(buf[:got])
			count(put)
			if err != nil {
				return err
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return rerr
		}
		switch more := got >= copyBytes/2 && mayBeLarge(); {
		case more && large == nil:
			large = largeBuffers.Get().(*[largeBytes]byte)
			buf = large[:]
		case !more && large != nil:
			largeBuffers.Put(large)
			large, buf = nil, small[:]
		}
	}
}
