package network

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// nic is the number of the one interface.
const nic = 1

// newStack returns a running stack whose interface is the link: it takes packets
// to every address (promiscuous), answers from every address (spoofing), and has
// a route to the guest's subnet alone.
func (n *Network) newStack() (*stack.Stack, error) {
	o := stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	}
	if n.guest.Gateway6.IsValid() { // without addresses of its own making, and without routers
		o.NetworkProtocols = append(o.NetworkProtocols, ipv6.NewProtocol)
		o.TransportProtocols = append(o.TransportProtocols, icmp.NewProtocol6)
	}
	s := stack.New(o)
	if err := n.configure(s); err != nil {
		s.Destroy()
		return nil, err
	}
	return s, nil
}

func (n *Network) configure(s *stack.Stack) error {
	if err := n.setTCPOptions(s); err != nil {
		return err
	}
	if err := s.CreateNIC(nic, ethernet.New(n.link)); err != nil {
		return stackError("interface", err)
	}
	if err := s.SetPromiscuousMode(nic, true); err != nil {
		return stackError("promiscuous", err)
	}
	if err := s.SetSpoofing(nic, true); err != nil {
		return stackError("spoofing", err)
	}
	for _, a := range []tcpip.Address{fromAddr(n.host), fromAddr(n.guest.DNS)} {
		addr := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddressWithPrefix{Address: a, PrefixLen: n.o.Subnet.Bits()}}
		if err := s.AddProtocolAddress(nic, addr, stack.AddressProperties{}); err != nil {
			return stackError("address", err)
		}
	}
	subnet, err := tcpip.NewSubnet(fromAddr(n.o.Subnet.Addr()), tcpip.MaskFromBytes(mask(n.o.Subnet.Bits())))
	if err != nil {
		return fmt.Errorf("network: subnet: %w", err)
	}
	if mac := n.o.GuestMAC; mac != nil {
		if err := s.AddStaticNeighbor(nic, ipv4.ProtocolNumber, fromAddr(n.guest.Address.Addr()), tcpip.LinkAddress(mac)); err != nil {
			return stackError("neighbour", err)
		}
	}
	routes := []tcpip.Route{{Destination: subnet, NIC: nic}}
	if n.guest.Gateway6.IsValid() {
		route6, err := n.configure6(s)
		if err != nil {
			return err
		}
		routes = append(routes, route6)
	}
	s.SetRouteTable(routes)

	s.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s, n.o.Limits.Buffer, n.o.Limits.Opening, n.acceptTCP).HandlePacket)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, n.acceptUDP).HandlePacket)
	s.SetTransportProtocolHandler(icmp.ProtocolNumber4, n.acceptICMP(s))
	if err := n.serveDNS(s); err != nil {
		return err
	}
	return n.serveDHCP(s)
}

// configure6 gives the interface its IPv6 address, and returns the route to the guest's.
func (n *Network) configure6(s *stack.Stack) (tcpip.Route, error) {
	bits := n.o.Subnet6.Bits()
	addr := tcpip.ProtocolAddress{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: tcpip.AddressWithPrefix{Address: fromAddr(n.guest.Gateway6), PrefixLen: bits}}
	if err := s.AddProtocolAddress(nic, addr, stack.AddressProperties{}); err != nil {
		return tcpip.Route{}, stackError("IPv6 address", err)
	}
	// Nobody asks for neighbours: such packets do not pass.
	mac := tcpip.LinkAddress(n.o.GuestMAC)
	if err := s.AddStaticNeighbor(nic, ipv6.ProtocolNumber, fromAddr(n.guest.Address6.Addr()), mac); err != nil {
		return tcpip.Route{}, stackError("IPv6 neighbour", err)
	}
	subnet := addr.AddressWithPrefix.Subnet()
	return tcpip.Route{Destination: subnet, NIC: nic}, nil
}

func (n *Network) setTCPOptions(s *stack.Stack) error {
	most := n.o.Limits.Buffer
	sack := tcpip.TCPSACKEnabled(true)
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: most, Max: max(most, int(n.streams.large))}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: most, Max: most}
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &receive, &send} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return stackError("TCP option", err)
		}
	}
	return nil
}

// mask returns an IPv4 netmask of that many bits.
func mask(bits int) []byte {
	m := ^uint32(0) << (32 - bits)
	return []byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
}
