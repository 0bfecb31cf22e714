package network

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

var subnet6 = netip.MustParsePrefix("fd00:1:2:3::/64")

// with6 are the options of a network with IPv6.
func with6(o Options) Options {
	o.Subnet6, o.GuestMAC = subnet6, net.HardwareAddr(guestMAC)
	return o
}

// packet6 is an IPv6 packet.
func packet6(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) []byte {
	b := make([]byte, header.IPv6MinimumSize, header.IPv6MinimumSize+len(payload))
	header.IPv6(b).Encode(&header.IPv6Fields{PayloadLength: uint16(len(payload)), TransportProtocol: protocol, HopLimit: 255, SrcAddr: fromAddr(from), DstAddr: fromAddr(to)})
	return append(b, payload...)
}

// syn6 is a packet that opens a connection.
func syn6(from, to netip.AddrPort) []byte {
	b := header.TCP(make([]byte, header.TCPMinimumSize))
	b.Encode(&header.TCPFields{SrcPort: from.Port(), DstPort: to.Port(), SeqNum: 1000, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 65535})
	b.SetChecksum(^b.CalculateChecksum(header.PseudoHeaderChecksum(header.TCPProtocolNumber, fromAddr(from.Addr()), fromAddr(to.Addr()), uint16(len(b)))))
	return packet6(from.Addr(), to.Addr(), header.TCPProtocolNumber, b)
}

// icmp6 is an ICMP packet without content.
func icmp6(kind header.ICMPv6Type, from, to netip.Addr) []byte {
	b := header.ICMPv6(make([]byte, 24))
	b.SetType(kind)
	b.SetChecksum(^checksum.Checksum(b, header.PseudoHeaderChecksum(header.ICMPv6ProtocolNumber, fromAddr(from), fromAddr(to), uint16(len(b)))))
	return packet6(from, to, header.ICMPv6ProtocolNumber, b)
}

// tcpReply6 returns the flags of the next TCP segment from there.
func (s *setup) tcpReply6(from netip.AddrPort) header.TCPFlags {
	s.t.Helper()
	body := s.receive("TCP from "+from.String(), func(kind uint16, body []byte) bool {
		h := header.IPv6(body)
		return kind == typeIPv6 && h.TransportProtocol() == header.TCPProtocolNumber && toAddr(h.SourceAddress()) == from.Addr() && header.TCP(h.Payload()).SourcePort() == from.Port()
	})
	return header.TCP(header.IPv6(body).Payload()).Flags()
}

// The policy decides about IPv6 as about IPv4, and the gateway is the host's ::1.
func TestIPv6Connections(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{HostName, "[2001:db8::1]:80"}}}, with6(Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "[2001:db8::1]:80" {
				address = at.String()
			}
			if host, port, _ := net.SplitHostPort(address); host == "::1" {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}))
	conf := s.network.Guest()
	for i, c := range []struct {
		to   netip.AddrPort
		want header.TCPFlags
	}{
		{netip.AddrPortFrom(conf.Gateway6, at.Port()), header.TCPFlagSyn | header.TCPFlagAck},
		{netip.MustParseAddrPort("[2001:db8::1]:80"), header.TCPFlagSyn | header.TCPFlagAck},
		{netip.MustParseAddrPort("[2001:db8::1]:81"), header.TCPFlagRst | header.TCPFlagAck},
		{netip.MustParseAddrPort("[2001:db8::2]:80"), header.TCPFlagRst | header.TCPFlagAck},
		{netip.MustParseAddrPort("[64:ff9b::7f00:1]:80"), header.TCPFlagRst | header.TCPFlagAck},
		{netip.MustParseAddrPort("[2002:7f00:1::1]:80"), header.TCPFlagRst | header.TCPFlagAck},
		{netip.AddrPortFrom(nth(subnet6, 9), 80), header.TCPFlagRst | header.TCPFlagAck},
	} {
		s.send(frame(gatewayMAC, typeIPv6, syn6(netip.AddrPortFrom(conf.Address6.Addr(), uint16(2000+i)), c.to)))
		if got := s.tcpReply6(c.to); got != c.want {
			t.Errorf("%s: %s, want %s", c.to, got, c.want)
		}
	}
}

// Frames that may lead elsewhere do not reach the stack.
func TestIPv6FramesThatAreDropped(t *testing.T) {
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, with6(Options{}))
	conf := s.network.Guest()
	us, gateway := conf.Address6.Addr(), conf.Gateway6
	port := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 80) }
	dropped := [][]byte{
		syn6(port(nth(subnet6, 16)), port(gateway)), // another's address
		syn6(port(gateway), port(gateway)),
		syn6(port(netip.IPv6Unspecified()), port(gateway)),
		syn6(port(netip.MustParseAddr("fe80::1")), port(gateway)),
		syn6(port(us), port(us)),
		syn6(port(us), port(netip.IPv6Loopback())),
		syn6(port(us), port(netip.IPv6Unspecified())),
		syn6(port(us), port(netip.MustParseAddr("::ffff:127.0.0.1"))),
		syn6(port(us), port(netip.AddrFrom16(conf.Gateway.As16()))),
		syn6(port(us), port(netip.MustParseAddr("ff02::1"))),
		icmp6(header.ICMPv6RouterAdvert, us, gateway),
		icmp6(header.ICMPv6NeighborSolicit, us, gateway),
		icmp6(header.ICMPv6NeighborAdvert, us, gateway),
		icmp6(header.ICMPv6RedirectMsg, us, gateway),
		packet6(us, gateway, 0, make([]byte, 64)),  // hop by hop
		packet6(us, gateway, 43, make([]byte, 64)), // routing
		packet6(us, gateway, 44, make([]byte, 64)), // fragment
		packet6(us, gateway, 41, make([]byte, 64)), // IPv6 in IPv6
		packet6(us, gateway, header.TCPProtocolNumber, nil),
	}
	for i, body := range dropped {
		if f := frame(gatewayMAC, typeIPv6, body); s.network.admit(f) {
			t.Errorf("frame %d is let in: %x", i, f)
		}
	}
	for _, body := range [][]byte{syn6(port(us), port(gateway)), icmp6(header.ICMPv6EchoRequest, us, gateway)} {
		if f := frame(gatewayMAC, typeIPv6, body); !s.network.admit(f) {
			t.Errorf("dropped: %x", f)
		}
	}
	s.send(frame(gatewayMAC, typeIPv6, icmp6(header.ICMPv6EchoRequest, us, gateway)))
	s.receive("echo reply", func(kind uint16, body []byte) bool {
		h := header.IPv6(body)
		return kind == typeIPv6 && h.TransportProtocol() == header.ICMPv6ProtocolNumber && header.ICMPv6(h.Payload()).Type() == header.ICMPv6EchoReply
	})
}

// Without an address of its own a guest's IPv6 goes nowhere.
func TestNoIPv6(t *testing.T) {
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{})
	if f := frame(gatewayMAC, typeIPv6, syn6(netip.AddrPortFrom(nth(subnet6, 15), 1), netip.MustParseAddrPort("[2001:db8::1]:80"))); s.network.admit(f) {
		t.Error("a frame is let in")
	}
}

// AAAA is answered under the policy for A, and is empty where this machine has no IPv6.
func TestDNSIPv6(t *testing.T) {
	z := newZone()
	z.names["good.test"] = append(z.names["good.test"], netip.MustParseAddr("2001:db8::5"))
	z.names["six.test"] = []netip.Addr{netip.MustParseAddr("2001:db8::6"), netip.MustParseAddr("64:ff9b::7f00:1"), netip.MustParseAddr("::1")}
	has := true
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"*.test:80", "[::1]:80"}}}, with6(Options{Resolver: z, HasIPv6: func() bool { return has }}))
	for _, c := range []struct {
		has  bool
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want []string
	}{
		{true, "good.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, []string{"2001:db8::5"}},
		{true, "six.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, []string{"2001:db8::6"}},
		{true, "six.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, nil},
		{true, "other.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, nil},
		{true, "nobody.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeNameError, nil},
		{true, "secret.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, nil},
		{true, "secret.example.", dnsmessage.TypeA, dnsmessage.RCodeRefused, nil},
		{true, HostName + ".", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, []string{s.network.Guest().Gateway6.String()}},
		{false, "good.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, nil},
		{false, "good.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, []string{"93.184.216.34", "93.184.216.35"}},
		{false, "six.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil},
	} {
		has = c.has
		q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(c.name), Type: c.kind, Class: dnsmessage.ClassINET}}}
		wire, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var reply dnsmessage.Message
		if err := reply.Unpack(s.network.answer(t.Context(), wire, netip.AddrPort{})); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range reply.Answers {
			switch b := a.Body.(type) {
			case *dnsmessage.AResource:
				got = append(got, netip.AddrFrom4(b.A).String())
			case *dnsmessage.AAAAResource:
				got = append(got, netip.AddrFrom16(b.AAAA).String())
			}
		}
		if reply.RCode != c.code || !slices.Equal(got, c.want) {
			t.Errorf("IPv6 %v: %s %s: %s %v, want %s %v", c.has, c.name, c.kind, reply.RCode, got, c.code, c.want)
		}
	}
}
