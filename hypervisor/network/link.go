package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Parts of frames, in bytes.
const (
	ethernetSize = 14
	arpSize      = 28
	ipv4Size     = 20
	ipv6Size     = 40
	udpSize      = 8

	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
	typeARP  = 0x0806
)

const (
	// queueFrames is how many frames wait for the guest to take them.
	queueFrames = 1024
	// batchBytes is about how many of them are written at once.
	batchBytes = 256 << 10
)

// GatewayMAC is our end's address, locally administered.
const GatewayMAC = "\x52\x55\x0a\x00\x02\x02"

const gatewayMAC = tcpip.LinkAddress(GatewayMAC)

// link is our end of the cable: the stack's frames wait in a bounded queue.
type link struct {
	*channel.Endpoint
	dropped atomic.Uint64
}

func newLink(o Options) *link {
	return &link{Endpoint: channel.New(queueFrames, uint32(o.MTU+ethernetSize), gatewayMAC)}
}

// local prepares for a [LocalCable], before the stack begins.
func (l *link) local() {
	l.LinkEPCapabilities |= stack.CapabilityTXChecksumOffload | stack.CapabilityRXChecksumOffload
}

// WritePackets queues frames; those for which there is no room are lost, which
// TCP takes for congestion.
func (l *link) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	sent, err := l.Endpoint.WritePackets(pkts)
	if lost := pkts.Len() - sent; lost > 0 {
		l.dropped.Add(uint64(lost))
	}
	return sent, err
}

// write puts the queue on the cable until ctx ends or the cable fails.
func (l *link) write(ctx context.Context, c Cable) error {
	for {
		pkt := l.ReadContext(ctx)
		if pkt == nil {
			return ctx.Err()
		}
		for size := 0; pkt != nil; pkt = l.Read() {
			err := c.Put(pkt.AsSlices())
			size += pkt.Size()
			pkt.DecRef()
			if err != nil {
				return err
			}
			if size >= batchBytes {
				break
			}
		}
		if err := c.Flush(); err != nil {
			return err
		}
	}
}

// read hands the guest's frames to the stack until the cable ends. A panic of the
// stack's is an error: this guest loses its network, the others do not.
func (n *Network) read(c Cable) (err error) {
	defer func() {
		if p := recover(); p != nil {
			n.log.Error("the network stack failed on a frame", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("network: the stack failed on a frame: %v", p)
		}
	}()
	frame := make([]byte, n.o.MTU+ethernetSize)
	for {
		size, err := c.Take(frame)
		switch {
		case err != nil:
			return cableEnd(err)
		case size < ethernetSize:
			n.oversize.Add(1)
		default:
			n.receive(frame[:size])
		}
	}
}

// cableEnd is nil for an end in order: the guest is gone, or we closed.
func cableEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("network: reading frames: %w", err)
}

// receive gives the stack a frame that it may see, and copies it for that.
func (n *Network) receive(frame []byte) {
	if !n.admit(frame) {
		if frame[0] != 0x33 || frame[1] != 0x33 { // kernels speak to IPv6 groups of their own accord
			n.foreign.Add(1)
		}
		return
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	n.link.InjectInbound(0, pkt)
	pkt.DecRef()
}

// admit tells whether a frame is ARP, IPv4 or IPv6, from the guest's own address, and
// for a place that may exist. It looks at no more than it must to keep other
// addresses out of the stack's tables; the stack checks the rest.
func (n *Network) admit(frame []byte) bool {
	if len(frame) < ethernetSize {
		return false
	}
	if to := tcpip.LinkAddress(frame[:6]); to != gatewayMAC && frame[0]&1 == 0 {
		return false
	}
	body := frame[ethernetSize:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case typeARP:
		if len(body) < arpSize {
			return false
		}
		from, to := ip4(body[14:]), ip4(body[24:])
		// The stack would answer for every address, the guest's own among them.
		return (from == n.guest.Address.Addr() || from.IsUnspecified()) && (to == n.host || to == n.guest.DNS)
	case typeIPv4:
		if len(body) < ipv4Size {
			return false
		}
		from, to := ip4(body[12:]), ip4(body[16:])
		if to == broadcast { // DHCP
			return from.IsUnspecified() || from == n.guest.Address.Addr()
		}
		return from == n.guest.Address.Addr() && !to.IsMulticast() && !to.IsLoopback() && to != from
	case typeIPv6:
		return n.admit6(body)
	}
	return false
}

// admit6 lets TCP, UDP and echo requests pass. There is no other ICMP, so that nobody
// changes the stack's table of neighbours, and neither fragments nor other headers: all
// fits into a frame. Addresses that mean IPv4 ones are not for a cable.
func (n *Network) admit6(body []byte) bool {
	if !n.guest.Gateway6.IsValid() || len(body) < ipv6Size+udpSize {
		return false
	}
	switch body[6] {
	case tcpProtocol, udpProtocol:
	case icmp6Protocol:
		if body[ipv6Size] != icmp6Echo {
			return false
		}
	default:
		return false
	}
	from, to := ip6(body[8:]), ip6(body[24:])
	return from == n.guest.Address6.Addr() && to != from && !to.IsMulticast() && !to.IsLoopback() && !to.IsUnspecified() && !to.Is4In6()
}

// Protocols in an IPv6 header, and the type of an echo request.
const (
	tcpProtocol   = 6
	udpProtocol   = 17
	icmp6Protocol = 58
	icmp6Echo     = 128
)

func ip6(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b[:16])) }

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func ip4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b[:4])) }
