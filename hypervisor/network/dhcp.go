package network

import (
	"context"
	"encoding/binary"
	"net"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// DHCP (RFC 2131, 2132): there is one lease, and it does not end.
const (
	dhcpServerPort = 67
	dhcpClientPort = 68

	dhcpHeader = 240 // with the magic cookie
	dhcpCookie = 0x63825363

	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpAck      = 5
	dhcpNak      = 6
	dhcpInform   = 8

	optSubnet    = 1
	optRouter    = 3
	optDNS       = 6
	optMTU       = 26
	optRequested = 50
	optLease     = 51
	optType      = 53
	optServer    = 54
	optEnd       = 255
)

// serveDHCP listens for guests that want to be told their address.
func (n *Network) serveDHCP(s *stack.Stack) error {
	wq := new(waiter.Queue)
	ep, terr := s.NewEndpoint(udp.ProtocolNumber, ipv4.ProtocolNumber, wq)
	if terr != nil {
		return stackError("DHCP", terr)
	}
	ep.SocketOptions().SetBroadcast(true)
	if terr := ep.Bind(tcpip.FullAddress{NIC: nic, Port: dhcpServerPort}); terr != nil {
		ep.Close()
		return stackError("DHCP", terr)
	}
	conn := gonet.NewUDPConn(wq, ep)
	context.AfterFunc(n.ctx, func() { _ = conn.Close() })
	n.begin(func() {
		buf := make([]byte, copyBytes)
		to := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpClientPort}
		for {
			got, _, err := conn.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			if reply := n.lease(buf[:got]); reply != nil && !n.flood() {
				_, _ = conn.WriteTo(reply, to) // lost is lost: it asks again
			}
		}
	})
	return nil
}

// lease returns the reply to a DHCP message, or nil where none is due.
func (n *Network) lease(m []byte) []byte {
	if len(m) < dhcpHeader || m[0] != 1 || m[1] != 1 || m[2] != 6 || binary.BigEndian.Uint32(m[236:]) != dhcpCookie {
		return nil
	}
	options := dhcpOptions(m[dhcpHeader:])
	kind := options[optType]
	if len(kind) != 1 {
		return nil
	}
	if server := options[optServer]; len(server) == 4 && ip4(server) != n.host {
		return nil // the guest took another's offer
	}
	address, answer := n.guest.Address.Addr(), byte(dhcpAck)
	switch kind[0] {
	case dhcpDiscover:
		answer = dhcpOffer
	case dhcpRequest:
		wanted := options[optRequested]
		if len(wanted) != 4 {
			wanted = m[12:16] // ciaddr, when it renews
		}
		if ip4(wanted) != address {
			answer = dhcpNak
		}
	case dhcpInform:
	default:
		return nil
	}

	reply := make([]byte, dhcpHeader, dhcpHeader+64)
	reply[0], reply[1], reply[2] = 2, 1, 6
	copy(reply[4:8], m[4:8])     // transaction
	copy(reply[10:12], m[10:12]) // flags
	copy(reply[28:44], m[28:44]) // hardware address
	binary.BigEndian.PutUint32(reply[236:], dhcpCookie)
	host := n.host.AsSlice()
	reply = append(reply, optType, 1, answer, optServer, 4)
	reply = append(reply, host...)
	if answer != dhcpNak {
		if kind[0] != dhcpInform {
			copy(reply[16:20], address.AsSlice()) // yiaddr
			reply = append(reply, optLease, 4, 0xff, 0xff, 0xff, 0xff)
		}
		reply = append(append(reply, optSubnet, 4), mask(n.o.Subnet.Bits())...)
		reply = append(append(reply, optRouter, 4), host...)
		reply = append(append(reply, optDNS, 4), n.guest.DNS.AsSlice()...)
		reply = append(reply, optMTU, 2, byte(n.o.MTU>>8), byte(n.o.MTU))
	}
	return append(reply, optEnd)
}

// dhcpOptions parses the options up to the end or the first that is cut off; of
// equal ones the last counts.
func dhcpOptions(b []byte) map[byte][]byte {
	options := map[byte][]byte{}
	for len(b) > 0 && b[0] != optEnd {
		if b[0] == 0 { // padding
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			break
		}
		options[b[0]] = b[2 : 2+int(b[1])]
		b = b[2+int(b[1]):]
	}
	return options
}
