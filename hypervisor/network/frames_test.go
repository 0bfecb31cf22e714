package network

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// frame puts an ethernet header before a body.
func frame(to tcpip.LinkAddress, kind uint16, body []byte) []byte {
	f := append([]byte(to), guestMAC...)
	return append(binary.BigEndian.AppendUint16(f, kind), body...)
}

// packet is an IPv4 packet.
func packet(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) []byte {
	b := make([]byte, header.IPv4MinimumSize, header.IPv4MinimumSize+len(payload))
	h := header.IPv4(b)
	h.Encode(&header.IPv4Fields{TotalLength: uint16(cap(b)), TTL: 64, Protocol: uint8(protocol), SrcAddr: fromAddr(from), DstAddr: fromAddr(to)})
	h.SetChecksum(^h.CalculateChecksum())
	return append(b, payload...)
}

// syn is a packet that opens a connection.
func syn(from, to netip.AddrPort) []byte {
	b := header.TCP(make([]byte, header.TCPMinimumSize))
	b.Encode(&header.TCPFields{SrcPort: from.Port(), DstPort: to.Port(), SeqNum: 1000, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 65535})
	b.SetChecksum(^b.CalculateChecksum(header.PseudoHeaderChecksum(header.TCPProtocolNumber, fromAddr(from.Addr()), fromAddr(to.Addr()), uint16(len(b)))))
	return packet(from.Addr(), to.Addr(), header.TCPProtocolNumber, b)
}

// datagram is a UDP packet.
func datagram(from, to netip.AddrPort, payload []byte) []byte {
	b := header.UDP(make([]byte, header.UDPMinimumSize, header.UDPMinimumSize+len(payload)))
	size := uint16(cap(b))
	b.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: size})
	sum := header.PseudoHeaderChecksum(header.UDPProtocolNumber, fromAddr(from.Addr()), fromAddr(to.Addr()), size)
	b.SetChecksum(^b.CalculateChecksum(checksum.Checksum(payload, sum)))
	return packet(from.Addr(), to.Addr(), header.UDPProtocolNumber, append(b, payload...))
}

// arp is an ARP packet.
func arp4(op header.ARPOp, from, to netip.Addr) []byte {
	h := header.ARP(make([]byte, header.ARPSize))
	h.SetIPv4OverEthernet()
	h.SetOp(op)
	copy(h.HardwareAddressSender(), guestMAC)
	copy(h.ProtocolAddressSender(), from.AsSlice())
	copy(h.HardwareAddressTarget(), gatewayMAC)
	copy(h.ProtocolAddressTarget(), to.AsSlice())
	return h
}

const everyone = tcpip.LinkAddress("\xff\xff\xff\xff\xff\xff")

// send puts frames on the cable.
func (s *setup) send(frames ...[]byte) {
	s.t.Helper()
	for _, f := range frames {
		if _, err := s.cable.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// receive returns the body of the next frame that is wanted, and answers ARP
// meanwhile as a guest does.
func (s *setup) receive(what string, wanted func(kind uint16, body []byte) bool) []byte {
	s.t.Helper()
	_ = s.cable.SetReadDeadline(time.Now().Add(patience))
	for {
		f, err := readFrame(s.cable)
		if err != nil {
			s.t.Fatalf("no frame: %s: %v", what, err)
		}
		kind, body := binary.BigEndian.Uint16(f[12:]), f[ethernetSize:]
		if wanted(kind, body) {
			return body
		}
		if h := header.ARP(body); kind == typeARP && h.Op() == header.ARPRequest {
			s.send(frame(gatewayMAC, typeARP, arp4(header.ARPReply, s.network.Guest().Address.Addr(), ip4(h.ProtocolAddressSender()))))
		}
	}
}

// tcpReply returns the flags of the next TCP segment from there.
func (s *setup) tcpReply(from netip.AddrPort) header.TCPFlags {
	s.t.Helper()
	body := s.receive("TCP from "+from.String(), func(kind uint16, body []byte) bool {
		h := header.IPv4(body)
		return kind == typeIPv4 && h.TransportProtocol() == header.TCPProtocolNumber && toAddr(h.SourceAddress()) == from.Addr() && header.TCP(h.Payload()).SourcePort() == from.Port()
	})
	return header.TCP(header.IPv4(body).Payload()).Flags()
}

// A guest that never ends its handshake does not hold the end up.
func TestEndInHandshake(t *testing.T) {
	at := echoServer(t, "127.0.0.1:0")
	s := serve(t, loopback(t), Options{})
	to := netip.AddrPortFrom(s.network.Guest().Gateway, at.Port())
	s.send(frame(gatewayMAC, typeIPv4, syn(netip.AddrPortFrom(s.network.Guest().Address.Addr(), 1234), to)))
	s.tcpReply(to)
	s.end(nil)
}

// ARP is answered for what we are, and for nothing else: least of all the guest.
func TestARP(t *testing.T) {
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{})
	conf := s.network.Guest()
	guest := conf.Address.Addr()
	for _, other := range []netip.Addr{guest, guest.Next(), netip.MustParseAddr("8.8.8.8")} {
		s.send(frame(everyone, typeARP, arp4(header.ARPRequest, guest, other)))
	}
	for _, ours := range []netip.Addr{conf.Gateway, conf.DNS} {
		s.send(frame(everyone, typeARP, arp4(header.ARPRequest, guest, ours)))
		reply := header.ARP(s.receive("ARP", func(kind uint16, body []byte) bool {
			return kind == typeARP && header.ARP(body).Op() == header.ARPReply
		}))
		if ip4(reply.ProtocolAddressSender()) != ours || tcpip.LinkAddress(reply.HardwareAddressSender()) != gatewayMAC {
			t.Errorf("asked for %s: %v", ours, reply)
		}
	}
	if st := s.network.Stats(); st.Foreign != 3 {
		t.Errorf("%d frames were dropped as foreign, want 3", st.Foreign)
	}
}

// Frames that the stack must not see are counted and harm nobody.
func TestFramesThatAreDropped(t *testing.T) {
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, Options{})
	conf := s.network.Guest()
	guest, outside := netip.AddrPortFrom(conf.Address.Addr(), 1), netip.MustParseAddrPort("93.184.216.34:80")
	spoofed := netip.MustParseAddrPort("10.0.2.77:1")
	foreign := [][]byte{
		frame(gatewayMAC, typeIPv4, syn(spoofed, outside)),
		frame(gatewayMAC, typeIPv4, syn(outside, guest)),
		frame(gatewayMAC, typeIPv4, syn(guest, guest)),
		frame(gatewayMAC, typeIPv4, syn(guest, netip.MustParseAddrPort("127.0.0.5:80"))),
		frame("\x52\x55\x0a\x00\x02\x09", typeIPv4, syn(guest, outside)), // another machine's
		frame(gatewayMAC, 0x86dd, make([]byte, 60)),                      // IPv6
		frame(gatewayMAC, 0x8100, make([]byte, 60)),                      // VLAN
		frame(gatewayMAC, typeIPv4, make([]byte, 19)),
		frame(gatewayMAC, typeARP, make([]byte, 27)),
		frame(everyone, typeIPv4, datagram(guest, netip.MustParseAddrPort("224.0.0.251:5353"), []byte("who?"))),
		frame(everyone, typeARP, arp4(header.ARPRequest, outside.Addr(), conf.Gateway)),
		frame(gatewayMAC, typeIPv4, nil),
	}
	oversize := [][]byte{nil, {1}, make([]byte, 13), make([]byte, 1515), make([]byte, 200_000)}
	s.send(foreign...)
	s.send(oversize...)
	s.send(frame(everyone, typeARP, arp4(header.ARPRequest, guest.Addr(), conf.Gateway)))
	s.receive("ARP", func(kind uint16, body []byte) bool { return kind == typeARP })
	if st := s.network.Stats(); st.Foreign != uint64(len(foreign)) || st.Oversize != uint64(len(oversize)) {
		t.Errorf("%+v, want %d foreign and %d oversize", st, len(foreign), len(oversize))
	}
	if len(s.events.all) != 0 {
		t.Errorf("events: %+v", s.events.all)
	}
}

// More new flows than a guest may open are dropped without a word.
func TestFlood(t *testing.T) {
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Disabled}}, Options{Limits: Limits{NewFlows: 1}})
	conf := s.network.Guest()
	for port := range uint16(50) {
		s.send(frame(gatewayMAC, typeIPv4, datagram(netip.AddrPortFrom(conf.Address.Addr(), 1000+port), netip.MustParseAddrPort("93.184.216.34:80"), []byte("x"))))
	}
	// The gateway answers a ping itself, after what came before.
	s.send(frame(everyone, typeARP, arp4(header.ARPRequest, conf.Address.Addr(), conf.Gateway)))
	s.receive("ARP", func(kind uint16, body []byte) bool {
		return kind == typeARP && header.ARP(body).Op() == header.ARPReply
	})
	s.events.mu.Lock()
	told := len(s.events.all)
	s.events.mu.Unlock()
	if flooded := s.network.Stats().Flooded; flooded == 0 || told+int(flooded) != 50 {
		t.Errorf("%d were denied and %d dropped, of 50", told, flooded)
	}
}

// dhcp is a client's message.
func dhcp(kind byte, options ...byte) []byte {
	m := make([]byte, dhcpHeader)
	m[0], m[1], m[2] = 1, 1, 6
	copy(m[4:], "xid!")
	copy(m[28:], guestMAC)
	binary.BigEndian.PutUint32(m[236:], dhcpCookie)
	m = append(m, optType, 1, kind)
	return append(append(m, options...), optEnd)
}

func TestDHCP(t *testing.T) {
	s := serve(t, policy.Options{Network: policy.Network{Mode: policy.Disabled}}, Options{MTU: 9000})
	conf := s.network.Guest()
	exchange := func(m []byte) ([]byte, map[byte][]byte) {
		t.Helper()
		s.send(frame(everyone, typeIPv4, datagram(netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), m)))
		body := s.receive("DHCP", func(kind uint16, body []byte) bool {
			return kind == typeIPv4 && header.IPv4(body).TransportProtocol() == header.UDPProtocolNumber && header.UDP(header.IPv4(body).Payload()).DestinationPort() == 68
		})
		reply := header.UDP(header.IPv4(body).Payload()).Payload()
		if reply[0] != 2 || string(reply[4:8]) != "xid!" || string(reply[28:34]) != string(guestMAC) {
			t.Errorf("a reply for another: %x", reply)
		}
		return reply, dhcpOptions(reply[dhcpHeader:])
	}
	address := conf.Address.Addr().AsSlice()
	reply, options := exchange(dhcp(dhcpDiscover))
	if options[optType][0] != dhcpOffer || !bytes.Equal(reply[16:20], address) {
		t.Errorf("offer: %v of %v", options, reply[16:20])
	}
	reply, options = exchange(dhcp(dhcpRequest, append([]byte{optRequested, 4}, address...)...))
	if options[optType][0] != dhcpAck || !bytes.Equal(reply[16:20], address) {
		t.Errorf("ack: %v of %v", options, reply[16:20])
	}
	for option, want := range map[byte][]byte{optSubnet: {255, 255, 255, 0}, optRouter: conf.Gateway.AsSlice(), optDNS: conf.DNS.AsSlice(), optMTU: {9000 >> 8, 9000 & 255}, optServer: conf.Gateway.AsSlice()} {
		if !bytes.Equal(options[option], want) {
			t.Errorf("option %d is %v, want %v", option, options[option], want)
		}
	}
	if _, options = exchange(dhcp(dhcpRequest, optRequested, 4, 192, 168, 1, 1)); options[optType][0] != dhcpNak {
		t.Errorf("another address: %v", options)
	}
	for name, m := range map[string][]byte{
		"release": dhcp(7), "another's offer": dhcp(dhcpRequest, optServer, 4, 1, 2, 3, 4), "cut": dhcp(dhcpDiscover)[:239], "no type": dhcp(dhcpDiscover)[:dhcpHeader],
	} {
		if reply := s.network.lease(m); reply != nil {
			t.Errorf("%s is answered: %x", name, reply)
		}
	}
}

// FuzzFrame sends whatever a guest may, and looks whether the stack still lives.
func FuzzFrame(f *testing.F) {
	guest, outside := netip.MustParseAddrPort("10.0.2.15:1234"), netip.MustParseAddrPort("93.184.216.34:80")
	gateway := netip.MustParseAddr("10.0.2.2")
	guest6, outside6 := netip.AddrPortFrom(nth(subnet6, 15), 1234), netip.MustParseAddrPort("[2001:db8::1]:80")
	for _, seed := range [][]byte{
		frame(gatewayMAC, typeIPv4, syn(guest, outside)),
		frame(gatewayMAC, typeIPv4, datagram(guest, outside, []byte("hello"))),
		frame(gatewayMAC, typeIPv4, datagram(guest, netip.MustParseAddrPort("10.0.2.3:53"), []byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"))),
		frame(everyone, typeIPv4, datagram(netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), dhcp(dhcpDiscover))),
		frame(gatewayMAC, typeIPv4, packet(guest.Addr(), outside.Addr(), header.ICMPv4ProtocolNumber, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0})),
		frame(gatewayMAC, typeIPv4, packet(guest.Addr(), gateway, header.ICMPv4ProtocolNumber, []byte{3, 3, 0, 0, 0, 0, 0, 0, 0x45})),
		frame(gatewayMAC, typeIPv4, packet(guest.Addr(), gateway, 2, []byte{0x11, 0, 0, 0, 0, 0, 0, 0})),
		frame(everyone, typeARP, arp4(header.ARPRequest, guest.Addr(), gateway)),
		frame(gatewayMAC, typeARP, arp4(header.ARPReply, guest.Addr(), gateway)),
		frame(gatewayMAC, typeIPv6, syn6(guest6, outside6)),
		frame(gatewayMAC, typeIPv6, packet6(guest6.Addr(), outside6.Addr(), header.UDPProtocolNumber, []byte{0, 80, 0, 80, 0, 8, 0, 0})),
		frame(gatewayMAC, typeIPv6, icmp6(header.ICMPv6EchoRequest, guest6.Addr(), nth(subnet6, 2))),
		frame(gatewayMAC, typeIPv6, packet6(guest6.Addr(), outside6.Addr(), 44, []byte{6, 0, 0, 1, 0, 0, 0, 0})),
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	for option := range byte(8) { // IPv4 options
		p := packet(guest.Addr(), outside.Addr(), header.UDPProtocolNumber, []byte{option, 4, 5, 6, 0, 80, 0, 80, 0, 8, 0, 0})
		p[0] = 0x46
		f.Add(frame(gatewayMAC, typeIPv4, p), true)
	}
	e, err := policy.New(policy.Options{Network: policy.Network{Mode: policy.Open}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(e.Close)
	n, err := New(with6(Options{Policy: e, Resolver: newZone(), Limits: Limits{NewFlows: 1 << 20},
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
		Ping: func(context.Context, netip.Addr, uint16, []byte) error { return nil }}))
	if err != nil {
		f.Fatal(err)
	}
	s, err := n.newStack()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { n.end(s) })
	f.Fuzz(func(_ *testing.T, data []byte, mend bool) {
		if len(data) < ethernetSize || len(data) > 1514 {
			return
		}
		if mend { // so that it is not for a checksum alone that it is dropped
			if data[12] == typeIPv6>>8 {
				repair6(data[ethernetSize:])
			} else {
				repair(data[ethernetSize:])
			}
		}
		n.receive(data)
		n.link.Drain()
	})
}

// repair6 gives an IPv6 packet the checksums, the length and the source that it needs.
func repair6(b []byte) {
	h := header.IPv6(b)
	if len(b) < header.IPv6MinimumSize {
		return
	}
	h.SetPayloadLength(uint16(len(b) - header.IPv6MinimumSize))
	h.SetSourceAddress(fromAddr(nth(subnet6, 15)))
	body := b[header.IPv6MinimumSize:]
	sum := header.PseudoHeaderChecksum(h.TransportProtocol(), h.SourceAddress(), h.DestinationAddress(), uint16(len(body)))
	at := map[tcpip.TransportProtocolNumber]int{header.TCPProtocolNumber: 16, header.UDPProtocolNumber: 6, header.ICMPv6ProtocolNumber: 2}[h.TransportProtocol()]
	if at == 0 || len(body) < at+2 {
		return
	}
	binary.BigEndian.PutUint16(body[at:], 0)
	binary.BigEndian.PutUint16(body[at:], ^checksum.Checksum(body, sum))
}

// repair gives an IPv4 packet the checksums and the source that it needs.
func repair(b []byte) {
	h := header.IPv4(b)
	if len(b) < header.IPv4MinimumSize || int(h.HeaderLength()) > len(b) || h.HeaderLength() < header.IPv4MinimumSize {
		return
	}
	h.SetTotalLength(uint16(len(b)))
	h.SetSourceAddress(tcpip.AddrFrom4([4]byte{10, 0, 2, 15}))
	h.SetChecksum(0)
	h.SetChecksum(^h.CalculateChecksum())
	body := b[h.HeaderLength():]
	sum := header.PseudoHeaderChecksum(h.TransportProtocol(), h.SourceAddress(), h.DestinationAddress(), uint16(len(body)))
	switch p := h.TransportProtocol(); {
	case p == header.TCPProtocolNumber && len(body) >= header.TCPMinimumSize:
		body[16], body[17] = 0, 0
		header.TCP(body).SetChecksum(^checksum.Checksum(body, sum))
	case p == header.UDPProtocolNumber && len(body) >= header.UDPMinimumSize:
		body[6], body[7] = 0, 0
	case p == header.ICMPv4ProtocolNumber && len(body) >= header.ICMPv4MinimumSize:
		body[2], body[3] = 0, 0
		header.ICMPv4(body).SetChecksum(^checksum.Checksum(body, 0))
	}
}

func FuzzDNS(f *testing.F) {
	for _, seed := range []string{
		"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04good\x04test\x00\x00\x01\x00\x01",
		"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04good\x04test\x00\x00\x1c\x00\x01",
		"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01",
		"\x00\x01\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01\x01b\x00\x00\x01\x00\x01",
		"\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	e, err := policy.New(policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"good.test"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(e.Close)
	z := newZone()
	n, err := New(Options{Policy: e, Resolver: z})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := n.answer(context.Background(), query, netip.AddrPort{})
		if len(reply) > 512 {
			t.Errorf("a reply of %d bytes", len(reply))
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		for _, name := range z.asked {
			if name != "good.test" {
				t.Errorf("%q was looked up", name)
			}
		}
		z.asked = z.asked[:0]
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello("good.test"))
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, state := serverName(b)
		if (name != "") != (state == helloNamed) {
			t.Errorf("%q, state %d", name, state)
		}
		if state == helloPartial {
			return
		}
		if again, same := serverName(append(bytes.Clone(b), 0)); again != name || same != state {
			t.Errorf("one more byte makes (%q, %d) of (%q, %d)", again, same, name, state)
		}
	})
}

// A greeting is understood however it arrives, and cut into however many records.
func TestServerNameInPieces(t *testing.T) {
	whole := hello("www.good.test")
	for i := range len(whole) {
		if name, state := serverName(whole[:i]); state != helloPartial {
			t.Fatalf("%d bytes of %d: %q, state %d", i, len(whole), name, state)
		}
	}
	if name, state := serverName(whole); name != "www.good.test" || state != helloNamed {
		t.Fatalf("%q, state %d", name, state)
	}
	var cut []byte
	for b := whole[5:]; len(b) > 0; {
		n := min(len(b), 1+rand.IntN(50))
		cut = append(cut, 22, 3, 1, 0, byte(n))
		cut = append(cut, b[:n]...)
		b = b[n:]
	}
	if name, state := serverName(cut); name != "www.good.test" || state != helloNamed {
		t.Fatalf("in many records: %q, state %d", name, state)
	}
}

// understood is the server's name that a server of Go's finds in what a client says.
func understood(b []byte) (name string) {
	ours, theirs := net.Pipe()
	go func() { _, _ = ours.Write(b) }()
	go func() { _, _ = io.Copy(io.Discard, ours); _ = ours.Close() }()
	defer theirs.Close()
	_ = theirs.SetDeadline(time.Now().Add(10 * time.Second)) // a failure's
	_ = tls.Server(theirs, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errors.New("that is all")
	}}).Handshake()
	return name
}

// What servers take before a greeting, and how they read one, is no way around its
// name.
func TestServerNameInDisguise(t *testing.T) {
	whole := hello("www.good.test")
	record := func(kind byte, b ...byte) []byte {
		return append([]byte{kind, 3, 1, byte(len(b) >> 8), byte(len(b))}, b...)
	}
	vector := func(b ...byte) []byte { return append([]byte{byte(len(b) >> 8), byte(len(b))}, b...) }
	// named is a greeting with this list of names.
	named := func(list ...byte) []byte {
		body := append([]byte{3, 3}, make([]byte, 32+1)...) // version, random, session
		body = append(body, 0, 2, 0xc0, 0x2f, 1, 0)         // ciphers, compressions
		body = append(body, vector(append([]byte{0, 0}, vector(vector(list...)...)...)...)...)
		return record(recordHandshake, append([]byte{1, 0, 0, byte(len(body))}, body...)...)
	}
	good := append([]byte{0}, vector([]byte("www.good.test")...)...)
	for what, c := range map[string]struct {
		b    []byte
		byGo bool // others' servers take it
	}{
		"alone":                        {named(good...), true},
		"after a name of another type": {named(slices.Concat([]byte{9, 0, 1, 'x'}, good)...), true},
		"after a name of no bytes":     {named(slices.Concat([]byte{0, 0, 0}, good)...), false},
		"after a warning":              {slices.Concat(record(recordAlert, 1, 0), whole), false},
		"after an empty record":        {slices.Concat(record(recordHandshake), whole), false},
		"around an empty record":       {slices.Concat(record(recordHandshake, whole[5:9]...), record(recordHandshake), record(recordHandshake, whole[9:]...)), false},
		"after a change of the cipher": {slices.Concat(record(recordChange, 1), whole), false},
	} {
		if name, state := serverName(c.b); name != "www.good.test" || state != helloNamed {
			t.Errorf("%s: %q, state %d", what, name, state)
		}
		if c.byGo {
			if name := understood(c.b); name != "www.good.test" {
				t.Errorf("%s: a server understands %q", what, name)
			}
		}
	}
}
