package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
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
	// lookupTimeout bounds the host's resolver.
	lookupTimeout = 15 * time.Second
	// hostTTL is told to the guest where the resolver tells us none.
	hostTTL = time.Minute
	// dnsIdle is how long a TCP connection to the DNS server may be silent.
	dnsIdle = 30 * time.Second
)

// Resolver finds the IPv4 addresses of names. It is safe for concurrent use.
type Resolver interface {
	// LookupIPv4 returns the addresses and for how long they may be kept. A
	// [*net.DNSError] with IsNotFound says that there is no such name.
	LookupIPv4(ctx context.Context, name string) ([]netip.Addr, time.Duration, error)
}

// hostResolver asks as programs of the host do.
type hostResolver struct{}

func (hostResolver) LookupIPv4(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	// The final dot keeps the host's search domains out.
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", name+".")
	return addrs, hostTTL, err
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
		if questions[0].Type == dnsmessage.TypeA {
			reply.addrs, reply.ttl, reply.header.RCode = n.resolve(ctx, questions[0].Name.String(), source)
		}
	}
	return reply.pack()
}

// resolve looks a name up if the policy allows.
func (n *Network) resolve(ctx context.Context, name string, source netip.AddrPort) ([]netip.Addr, time.Duration, dnsmessage.RCode) {
	if c, err := policy.CanonicalName(name); err == nil && c == HostName && n.o.Policy.Mode() != policy.Disabled {
		return []netip.Addr{n.host}, hostTTL, dnsmessage.RCodeSuccess
	}
	v := n.o.Policy.Lookup(ctx, name, source)
	if !v.Allowed() {
		n.o.Policy.LookedUp(source, v, nil)
		return nil, 0, dnsmessage.RCodeRefused
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, ttl, err := n.o.Resolver.LookupIPv4(ctx, v.Domain)
	n.o.Policy.LookedUp(source, v, err)
	if err != nil {
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return nil, 0, dnsmessage.RCodeNameError
		}
		return nil, 0, dnsmessage.RCodeServerFailure
	}
	found = found[:min(len(found), maxAnswers)]
	return n.o.Policy.Learn(v, found, ttl), ttl, dnsmessage.RCodeSuccess
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
		if !a.Is4() {
			continue
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: r.question.Name, Class: dnsmessage.ClassINET, TTL: uint32(max(0, r.ttl/time.Second))},
			Body:   &dnsmessage.AResource{A: a.As4()},
		})
	}
	wire, err := m.Pack()
	if err != nil {
		return nil
	}
	return wire
}
