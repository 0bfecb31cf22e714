package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	xicmp "golang.org/x/net/icmp"
	xipv4 "golang.org/x/net/ipv4"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// pingTimeout is how long an echo request may stay unanswered, once allowed.
const pingTimeout = 10 * time.Second

// echo is an echo request of the guest's.
type echo struct {
	from, to tcpip.Address
	id, seq  uint16
	payload  []byte
}

// acceptICMP returns what the stack calls with ICMP packets. Our own addresses
// it answers itself.
func (n *Network) acceptICMP(s *stack.Stack) func(stack.TransportEndpointID, *stack.PacketBuffer) bool {
	return func(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
		to := toAddr(id.LocalAddress)
		h := header.ICMPv4(pkt.TransportHeader().Slice())
		if len(h) < header.ICMPv4MinimumSize || h.Type() != header.ICMPv4Echo || to == n.host || to == n.guest.DNS || n.flood() {
			return true
		}
		t, v := n.judge(policy.ICMP, netip.AddrPortFrom(to, 0))
		source := netip.AddrPortFrom(toAddr(id.RemoteAddress), 0)
		if v.Action == policy.Deny {
			n.o.Policy.Denied(t, source, v)
			return true
		}
		if !n.pings.take() {
			n.flooded.Add(1)
			return true
		}
		e := echo{from: id.RemoteAddress, to: id.LocalAddress, id: h.Ident(), seq: h.Sequence(), payload: pkt.Data().AsRange().ToSlice()}
		if !n.begin(func() {
			defer n.pings.give()
			n.forwardEcho(s, e, t, v, source)
		}) {
			n.pings.give()
		}
		return true
	}
}

func (n *Network) forwardEcho(s *stack.Stack, e echo, t policy.Target, v policy.Verdict, source netip.AddrPort) {
	if v.Action == policy.Undecided {
		v = n.o.Policy.Connect(n.ctx, t, source)
	}
	if !v.Allowed() {
		n.o.Policy.Denied(t, source, v)
		return
	}
	flow := n.o.Policy.Start(t, source, v)
	flow.Sent(len(e.payload))
	ctx, cancel := context.WithTimeout(n.ctx, pingTimeout)
	defer cancel()
	err := n.o.Ping(ctx, t.Address.Addr(), e.seq, e.payload)
	if errors.Is(err, os.ErrPermission) {
		n.noPing.Do(func() {
			n.log.Warn("the guest cannot ping: this user may not open ICMP sockets (Linux: sysctl net.ipv4.ping_group_range)", "error", err)
		})
	}
	if err == nil {
		err = e.reply(s)
		flow.Received(len(e.payload))
	}
	flow.End(err)
}

// reply sends the guest the answer.
func (e echo) reply(s *stack.Stack) error {
	route, terr := s.FindRoute(nic, e.to, e.from, header.IPv4ProtocolNumber, false)
	if terr != nil {
		return stackError("echo reply", terr)
	}
	defer route.Release()
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
		ReserveHeaderBytes: int(route.MaxHeaderLength()) + header.ICMPv4MinimumSize,
		Payload:            buffer.MakeWithData(e.payload),
	})
	defer pkt.DecRef()
	h := header.ICMPv4(pkt.TransportHeader().Push(header.ICMPv4MinimumSize))
	pkt.TransportProtocolNumber = header.ICMPv4ProtocolNumber
	h.SetType(header.ICMPv4EchoReply)
	h.SetIdent(e.id)
	h.SetSequence(e.seq)
	h.SetChecksum(header.ICMPv4Checksum(h, checksum.Checksum(e.payload, 0)))
	if err := route.WritePacket(stack.NetworkHeaderParams{Protocol: header.ICMPv4ProtocolNumber, TTL: 64}, pkt); err != nil {
		return stackError("echo reply", err)
	}
	return nil
}

// hostPing sends one echo request by a socket of the host's, an unprivileged one
// if the host has them, and waits for its answer.
func hostPing(ctx context.Context, to netip.Addr, seq uint16, payload []byte) error {
	conn, err := xicmp.ListenPacket("udp4", "0.0.0.0")
	raw := err != nil
	if raw {
		var rerr error
		if conn, rerr = xicmp.ListenPacket("ip4:icmp", "0.0.0.0"); rerr != nil {
			return fmt.Errorf("%w (%w)", rerr, err)
		}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	// A raw socket sees everybody's answers: ours is the one with all of this.
	id := int(binary.BigEndian.Uint16(to.AsSlice())^seq) ^ os.Getpid()&0xffff
	request := xicmp.Message{Type: xipv4.ICMPTypeEcho, Body: &xicmp.Echo{ID: id, Seq: int(seq), Data: payload}}
	wire, err := request.Marshal(nil)
	if err != nil {
		return err
	}
	var peer net.Addr = &net.UDPAddr{IP: to.AsSlice()}
	if raw {
		peer = &net.IPAddr{IP: to.AsSlice()}
	}
	if _, err := conn.WriteTo(wire, peer); err != nil {
		return err
	}
	buf := make([]byte, copyBytes)
	for {
		got, from, err := conn.ReadFrom(buf)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("network: no echo reply: %w", ctx.Err())
			}
			return err
		}
		reply, err := xicmp.ParseMessage(1, buf[:got]) // 1: ICMP for IPv4
		if err != nil || reply.Type != xipv4.ICMPTypeEchoReply {
			continue
		}
		body, ok := reply.Body.(*xicmp.Echo)
		if ok && body.Seq == int(seq) && (!raw || body.ID == id) && string(body.Data) == string(payload) && addrOf(from) == to {
			return nil
		}
	}
}

func addrOf(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.UDPAddr:
		ip = a.IP
	case *net.IPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
