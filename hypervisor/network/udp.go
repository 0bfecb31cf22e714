package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// acceptUDP is called by the stack with each datagram that belongs to no flow.
// False has the guest told that nobody listens there.
func (n *Network) acceptUDP(r *udp.ForwarderRequest) bool {
	id := r.ID()
	source, to := toAddrPort(id.RemoteAddress, id.RemotePort), toAddrPort(id.LocalAddress, id.LocalPort)
	if n.flood() || to.Addr() == broadcast {
		return true
	}
	t, v := n.judge(policy.UDP, to)
	if v.Action == policy.Deny {
		n.o.Policy.Denied(t, source, v)
		return false
	}
	if !n.udp.take() {
		n.o.Policy.Denied(t, source, policy.Verdict{Action: policy.Deny, Rule: "too many flows", Domain: v.Domain})
		return false
	}
	wq := new(waiter.Queue)
	ep, err := r.CreateEndpoint(wq)
	if err != nil {
		n.udp.give()
		return true
	}
	guest := gonet.NewUDPConn(wq, ep)
	if !n.begin(func() {
		defer n.udp.give()
		n.openUDP(guest, t, v, source)
	}) {
		n.udp.give()
		_ = guest.Close()
	}
	return true
}

// openUDP decides if that is still to do, meanwhile the endpoint keeps what the
// guest sends, and forwards.
func (n *Network) openUDP(guest *gonet.UDPConn, t policy.Target, v policy.Verdict, source netip.AddrPort) {
	defer guest.Close()
	if v.Action == policy.Undecided {
		v = n.o.Policy.Connect(n.ctx, t, source)
	}
	if !v.Allowed() {
		n.o.Policy.Denied(t, source, v)
		return
	}
	flow := n.o.Policy.Start(t, source, v)
	flow.End(n.forwardUDP(guest, flow, t))
}

func (n *Network) forwardUDP(guest net.Conn, flow *policy.Flow, t policy.Target) error {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.Limits.DialTimeout)
	outside, err := n.o.Dial(ctx, "udp", t.Address.String())
	cancel()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(n.ctx, func() { _ = guest.Close(); _ = outside.Close() })
	defer stop()

	var last atomic.Int64 // when something passed, in either direction
	last.Store(time.Now().UnixNano())
	var up, down error
	var other sync.WaitGroup
	other.Go(func() {
		down = copyDatagrams(guest, outside, n.o.Limits.UDPIdle, &last, flow.Received)
		_ = guest.Close()
	})
	up = copyDatagrams(outside, guest, n.o.Limits.UDPIdle, &last, flow.Sent)
	_ = outside.Close()
	other.Wait()
	if n.ctx.Err() != nil {
		return nil
	}
	return errors.Join(up, down)
}

// copyDatagrams copies until an error, or nil when nothing has passed for idle or
// the other direction closed both ends.
func copyDatagrams(to, from net.Conn, idle time.Duration, last *atomic.Int64, count func(int)) error {
	buf := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buf)
	for {
		until := time.Unix(0, last.Load()).Add(idle)
		if err := from.SetReadDeadline(until); err != nil {
			return err
		}
		got, err := from.Read(buf[:])
		var timeout net.Error
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
			if time.Since(time.Unix(0, last.Load())) >= idle {
				return nil
			}
			continue
		default:
			return err
		}
		last.Store(time.Now().UnixNano())
		if _, err := to.Write(buf[:got]); err != nil {
			return err
		}
		count(got)
	}
}
