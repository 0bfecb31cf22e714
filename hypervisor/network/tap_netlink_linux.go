package network

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TapMessage is a request to a route netlink socket. It is answered only if it fails.
type TapMessage struct {
	What string // it does, for people; empty: it may fail, where the kernel has no IPv6
	Data []byte
}

// TapMessages set the device up as the network says, and up.
func TapMessages(g Guest) []TapMessage {
	addr, gateway := g.Address.Addr(), g.Gateway
	list := []TapMessage{
		{"configuring the network device", tapLink(0, attr(unix.IFLA_ADDRESS, []byte(TapMAC)), attr(unix.IFLA_MTU, word(uint32(g.MTU))))},
		{"", tapLink(0, noLinkLocal())},
		{"bringing the network device up", tapLink(unix.IFF_UP)},
		{"giving the network device its address", address(g.Address)},
		{"the network's gateway", neighbour(gateway)},
		{"the network's DNS server", neighbour(g.DNS)},
		{"the network's route", route(addr, gateway)},
	}
	if addr, gateway := g.Address6, g.Gateway6; gateway.IsValid() {
		list = append(list, TapMessage{Data: address(addr)}, TapMessage{Data: neighbour(gateway)}, TapMessage{Data: route(addr.Addr(), gateway)})
	}
	return list
}

// noLinkLocal keeps the kernel from making an address of its own and asking for routers.
func noLinkLocal() []byte {
	mode := attr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{1}) // IN6_ADDR_GEN_MODE_NONE
	return attr(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, attr(unix.AF_INET6|unix.NLA_F_NESTED, mode))
}

func tapLink(flags uint32, attrs ...[]byte) []byte {
	return message(unix.RTM_NEWLINK, 0, pack(unix.IfInfomsg{Index: TapIndex, Flags: flags, Change: flags}), attrs...)
}

func address(p netip.Prefix) []byte {
	a := p.Addr().AsSlice()
	body := unix.IfAddrmsg{Family: family(p.Addr()), Prefixlen: uint8(p.Bits()), Index: TapIndex}
	if p.Addr().Is6() {
		body.Flags = unix.IFA_F_NODAD // nobody else is there
	}
	return message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, pack(body), attr(unix.IFA_LOCAL, a), attr(unix.IFA_ADDRESS, a))
}

// neighbour says who has an address of the host's end, so that nobody asks.
func neighbour(a netip.Addr) []byte {
	body := unix.NdMsg{Family: family(a), Ifindex: TapIndex, State: unix.NUD_PERMANENT}
	return message(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, pack(body),
		attr(unix.NDA_DST, a.AsSlice()), attr(unix.NDA_LLADDR, []byte(GatewayMAC)))
}

func route(from, gateway netip.Addr) []byte {
	body := unix.RtMsg{
		Family: family(gateway), Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_BOOT, Scope: unix.RT_SCOPE_UNIVERSE, Type: unix.RTN_UNICAST,
	}
	return message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, pack(body),
		attr(unix.RTA_GATEWAY, gateway.AsSlice()), attr(unix.RTA_OIF, word(TapIndex)), attr(unix.RTA_PREFSRC, from.AsSlice()))
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// message is a request with its header.
func message(kind, flags uint16, body []byte, attrs ...[]byte) []byte {
	for _, a := range attrs {
		body = append(body, a...)
	}
	h := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind, Flags: unix.NLM_F_REQUEST | flags, Seq: 1}
	return append(pack(h), body...)
}

// attr is an attribute, aligned.
func attr(kind int, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, uint16(kind))
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&(unix.RTA_ALIGNTO-1))...)
}

func word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// pack returns the bytes of a structure without pointers.
func pack[T any](v T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
}
