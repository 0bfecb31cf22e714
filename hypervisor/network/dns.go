package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

const (
	dnsPort = 53
	// maxAnswers keeps an answer within the 512 bytes of a UDP one: a header, a
	// question of at most 260 bytes, and 16 bytes for each.
	maxAnswers = 14
	// maxAnswers6 is the same for IPv6, with 28 bytes for each.
	maxAnswers6 = 8
	// lookupTimeout bounds the host's resolver.
	lookupTimeout = 15 * time.Second
	// hostTTL is told to the guest where the resolver tells us none.
	hostTTL = time.Minute
	// dnsIdle is how long a TCP connection to the DNS server may be silent.
	dnsIdle = 30 * time.Second
)

// Resolver finds the addresses of names. It is safe for concurrent use.
type Resolver interface {
	// LookupIPv4 returns the addresses and for how long they may be kept. A
	// [*net.DNSError] with IsNotFound says that there is no such name.
	LookupIPv4(ctx context.Context, name string) ([]netip.Addr, time.Duration, error)
	// LookupIPv6 is the same for IPv6.
	LookupIPv6(ctx context.Context, name string) ([]netip.Addr, time.Duration, error)
}

// hostResolver asks as programs of the host do.
type hostResolver struct{}

func (hostResolver) LookupIPv4(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	// The final dot keeps the host's search domains out.
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", name+".")
	return addrs, hostTTL, err
}

func (hostResolver) LookupIPv6(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip6", name+".")
	return slices.DeleteFunc(addrs, netip.Addr.Is4In6), hostTTL, err
}

// hasIPv6 tells whether this machine has a route to the IPv6 internet and an address for
// it. Nothing is sent.
func hasIPv6() bool {
	c, err := net.Dial("udp6", "[2000::1]:53")
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// serveDNS listens at the DNS server's address.
func (n *Network) serveDNS(s *stack.Stack) error {
	conn, err := gonet.DialUDP(s, &tcpip.FullAddress{NIC: nic, Addr: fromAddr(n.guest.DNS), Port: dnsPort}, nil, ipv4.ProtocolNumber)
	if err != nil {
		return err
	}
	context.AfterFunc(n.ctx, func() { _ = conn.Close() })
	n.begin(func() {
		buf := make([]byte, copyBytes)
		for {
			got, from, err := conn.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			if n.flood() {
				continue
			}
			if !n.lookups.take() {
				n.flooded.Add(1)
				continue
			}
			query := append([]byte(nil), buf[:got]...)
			if !n.begin(func() {
				defer n.lookups.give()
				if reply := n.answer(n.ctx, query, sourceOf(from)); reply != nil {
					_, _ = conn.WriteTo(reply, from) // lost is lost: it asks again
				}
			}) {
				return
			}
		}
	})
	return nil
}

func sourceOf(a net.Addr) netip.AddrPort {
	if u, ok := a.(*net.UDPAddr); ok {
		return u.AddrPort()
	}
	return netip.AddrPort{}
}

// serveDNSStream answers the queries of one TCP connection, one by one.
func (n *Network) serveDNSStream(guest *guestConn, source netip.AddrPort) {
	defer guest.Close()
	stop := context.AfterFunc(n.ctx, guest.abort)
	defer stop()
	for {
		_ = guest.SetReadDeadline(time.Now().Add(dnsIdle))
		var length [2]byte
		if _, err := io.ReadFull(guest, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(guest, query); err != nil || n.flood() {
			return
		}
		reply := n.answer(n.ctx, query, source)
		if reply == nil {
			return
		}
		_ = guest.SetWriteDeadline(time.Now().Add(dnsIdle))
		if _, err := guest.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// answer returns the reply to a query, or nil where none is due.
func (n *Network) answer(ctx context.Context, query []byte, source netip.AddrPort) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := reply{header: dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}}
	questions, err := p.AllQuestions()
	switch {
	case err != nil || len(questions) != 1:
		reply.header.RCode = dnsmessage.RCodeFormatError
	case h.OpCode != 0 || questions[0].Class != dnsmessage.ClassINET:
		reply.header.RCode = dnsmessage.RCodeNotImplemented
	default:
		reply.question = &questions[0]
		// Other types exist but are empty: nothing is resolved, nothing asked.
		if kind := questions[0].Type; kind == dnsmessage.TypeA || kind == dnsmessage.TypeAAAA && n.guest.Gateway6.IsValid() {
			reply.addrs, reply.ttl, reply.header.RCode = n.resolve(ctx, questions[0].Name.String(), kind, source)
		}
	}
	return reply.pack()
}

// resolve looks a name up if the policy allows.
func (n *Network) resolve(ctx context.Context, name string, kind dnsmessage.Type, source netip.AddrPort) ([]netip.Addr, time.Duration, dnsmessage.RCode) {
	if c, err := policy.CanonicalName(name); err == nil && c == HostName && n.o.Policy.Mode() != policy.Disabled {
		return n.hostAddress(kind), hostTTL, dnsmessage.RCodeSuccess
	}
	if kind == dnsmessage.TypeAAAA && !n.o.HasIPv6() {
		return nil, 0, dnsmessage.RCodeSuccess
	}
	v := n.o.Policy.Lookup(ctx, name, source)
	if !v.Allowed() {
		n.o.Policy.LookedUp(source, v, nil)
		if kind == dnsmessage.TypeAAAA {
			// The lookup of A, which comes along, says it. Two refusals would be taken for
			// a failure that passes, so that programs would try again.
			return nil, 0, dnsmessage.RCodeSuccess
		}
		return nil, 0, dnsmessage.RCodeRefused
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	lookup, other, most := n.o.Resolver.LookupIPv4, n.o.Resolver.LookupIPv6, maxAnswers
	if kind == dnsmessage.TypeAAAA {
		lookup, other, most = other, lookup, maxAnswers6
	}
	found, ttl, err := lookup(ctx, v.Domain)
	n.o.Policy.LookedUp(source, v, err)
	switch {
	case err == nil:
		found = found[:min(len(found), most)]
		return n.o.Policy.Learn(v, found, ttl), ttl, dnsmessage.RCodeSuccess
	case !notFound(err):
		return nil, 0, dnsmessage.RCodeServerFailure
	case kind == dnsmessage.TypeAAAA || n.guest.Gateway6.IsValid() && n.o.HasIPv6():
		// A name that has only addresses of the other family exists.
		if _, _, err := other(ctx, v.Domain); !notFound(err) {
			return nil, 0, dnsmessage.RCodeSuccess
		}
	}
	return nil, 0, dnsmessage.RCodeNameError
}

func notFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// hostAddress returns the host's address inside. The IPv6 one is told only if a rule
// names it: else programs would try it in vain.
func (n *Network) hostAddress(kind dnsmessage.Type) []netip.Addr {
	switch {
	case kind == dnsmessage.TypeA:
		return []netip.Addr{n.host}
	case n.o.Policy.NamesIPv6Loopback():
		return []netip.Addr{n.guest.Gateway6}
	}
	return nil
}

// reply is a DNS message of ours.
type reply struct {
	header   dnsmessage.Header
	question *dnsmessage.Question
	addrs    []netip.Addr
	ttl      time.Duration
}

func (r reply) pack() []byte {
	m := dnsmessage.Message{Header: r.header}
	if r.question != nil {
		m.Questions = []dnsmessage.Question{*r.question}
	}
	for _, a := range r.addrs {
		var body dnsmessage.ResourceBody
		switch {
		case r.question.Type == dnsmessage.TypeA && a.Is4():
			body = &dnsmessage.AResource{A: a.As4()}
		case r.question.Type == dnsmessage.TypeAAAA && a.Is6():
			body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: r.question.Name, Class: dnsmessage.ClassINET, TTL: uint32(max(0, r.ttl/time.Second))},
			Body:   body,
		})
	}
	wire, err := m.Pack()
	if err != nil {
		return nil
	}
	return wire
}
