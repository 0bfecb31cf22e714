package network

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// patience is how long a test waits for what must come.
const patience = 5 * time.Minute

const guestMAC = tcpip.LinkAddress("\x52\x54\x00\x12\x34\x56")

// events collects a policy's events.
type events struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []policy.Event
}

func newEvents() *events {
	e := &events{}
	e.cond = sync.NewCond(&e.mu)
	return e
}

func (e *events) add(ev policy.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
	e.cond.Broadcast()
}

// wait returns the first event that is wanted, when it is there.
func (e *events) wait(t testing.TB, what string, wanted func(policy.Event) bool) policy.Event {
	t.Helper()
	var late bool
	timer := time.AfterFunc(patience, func() { e.mu.Lock(); late = true; e.cond.Broadcast(); e.mu.Unlock() })
	defer timer.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		for _, ev := range e.all {
			if wanted(ev) {
				return ev
			}
		}
		if late {
			t.Fatalf("no event: %s; there were %+v", what, e.all)
		}
		e.cond.Wait()
	}
}

func (e *events) kind(t testing.TB, k policy.EventKind, p policy.Protocol) policy.Event {
	t.Helper()
	return e.wait(t, string(k)+" "+string(p), func(ev policy.Event) bool { return ev.Kind == k && ev.Protocol == p })
}

// setup is a network being served, and the other end of its cable.
type setup struct {
	t       testing.TB
	network *Network
	engine  *policy.Engine
	events  *events
	cable   net.Conn
	served  chan error // Serve's result
}

// localStream is a [stream] whose ends spare each other the checksums.
type localStream struct{ *stream }

// Local implements [LocalCable].
func (localStream) Local() {}

// serve starts a network for a test, on QEMU's stream.
func serve(t testing.TB, po policy.Options, o Options) *setup {
	t.Helper()
	return serveCable(t, po, o, func(c net.Conn) Cable { return newStream(c) })
}

func serveCable(t testing.TB, po policy.Options, o Options, as func(net.Conn) Cable) *setup {
	t.Helper()
	s := &setup{t: t, events: newEvents(), served: make(chan error, 1)}
	po.OnEvent = s.events.add
	var err error
	if s.engine, err = policy.New(po); err != nil {
		t.Fatal(err)
	}
	o.Policy = s.engine
	if s.network, err = New(o); err != nil {
		t.Fatal(err)
	}
	ours, theirs := cable(t)
	s.cable = theirs
	go func() { s.served <- s.network.ServeCable(context.Background(), as(ours)) }()
	t.Cleanup(func() { s.end(nil) })
	return s
}

// end cuts the cable, waits for Serve and checks what it returned.
func (s *setup) end(want error) {
	s.t.Helper()
	_ = s.cable.Close()
	select {
	case err := <-s.served:
		if !errors.Is(err, want) {
			s.t.Errorf("Serve returned %v, want %v", err, want)
		}
	case <-time.After(patience):
		s.t.Error("Serve does not return though the cable is cut")
	}
	s.served <- want
	s.engine.Close()
	if live := s.engine.Flows(); len(live) != 0 {
		s.t.Errorf("flows left after the end: %+v", live)
	}
}

// cable returns both ends of a unix socket.
func cable(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "net"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if b, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if a, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// guest is a guest's side: a second stack on the cable.
type guest struct {
	t testing.TB
	*setup
	stack *stack.Stack
}

// boot serves a network and attaches a guest with a static address.
func boot(t testing.TB, po policy.Options, o Options) *guest {
	t.Helper()
	return attach(t, serve(t, po, o), 0)
}

// bootLocal is boot with a [LocalCable].
func bootLocal(t testing.TB, po policy.Options, o Options) *guest {
	t.Helper()
	return attach(t, serveCable(t, po, o, func(c net.Conn) Cable { return localStream{newStream(c)} }),
		stack.CapabilityTXChecksumOffload|stack.CapabilityRXChecksumOffload)
}

// attach puts a guest's stack on the other end of the cable.
func attach(t testing.TB, s *setup, can stack.LinkEndpointCapabilities) *guest {
	t.Helper()
	g := &guest{t: t, setup: s}
	conf := g.network.Guest()
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	link := channel.New(4096, uint32(conf.MTU+ethernetSize), guestMAC)
	link.LinkEPCapabilities |= can
	must := func(err tcpip.Error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(g.stack.CreateNIC(1, ethernet.New(link)))
	must(g.stack.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: fromAddr(conf.Address.Addr()), PrefixLen: conf.Address.Bits()}}, stack.AddressProperties{}))
	subnet, err := tcpip.NewSubnet(fromAddr(conf.Address.Masked().Addr()), tcpip.MaskFromBytes(mask(conf.Address.Bits())))
	if err != nil {
		t.Fatal(err)
	}
	everything, err := tcpip.NewSubnet(tcpip.AddrFrom4([4]byte{}), tcpip.MaskFromBytes(mask(0)))
	if err != nil {
		t.Fatal(err)
	}
	g.stack.SetRouteTable([]tcpip.Route{{Destination: subnet, NIC: 1}, {Destination: everything, Gateway: fromAddr(conf.Gateway), NIC: 1}})
	sack := tcpip.TCPSACKEnabled(true)
	must(g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack))

	ctx, cancel := context.WithCancel(context.Background())
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for pkt := link.ReadContext(ctx); pkt != nil; pkt = link.ReadContext(ctx) {
			frame := pkt.ToView().AsSlice()
			_, _ = g.cable.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
			pkt.DecRef()
		}
	})
	pumps.Go(func() {
		r := bufio.NewReader(g.cable)
		for {
			frame, err := readFrame(r)
			if err != nil {
				return
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
			link.InjectInbound(0, pkt)
			pkt.DecRef()
		}
	})
	t.Cleanup(func() {
		g.end(nil)
		cancel()
		pumps.Wait()
		g.stack.Destroy()
		link.Close()
	})
	return g
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// within is a context of a test's patience.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// dial connects from inside.
func (g *guest) dial(ctx context.Context, to netip.AddrPort) (*guestConn, error) {
	wq := new(waiter.Queue)
	ep, terr := g.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, wq)
	if terr != nil {
		return nil, stackError("endpoint", terr)
	}
	entry, ready := waiter.NewChannelEntry(waiter.WritableEvents)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	terr = ep.Connect(tcpip.FullAddress{NIC: 1, Addr: fromAddr(to.Addr()), Port: to.Port()})
	if _, started := terr.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ready:
			terr = ep.LastError()
		case <-ctx.Done():
			ep.Close()
			return nil, ctx.Err()
		}
	}
	if terr != nil {
		ep.Close()
		return nil, stackError("connect", terr)
	}
	return &guestConn{TCPConn: gonet.NewTCPConn(wq, ep), ep: ep, wq: wq}, nil
}

// mustDial connects or fails the test.
func (g *guest) mustDial(to netip.AddrPort) *guestConn {
	g.t.Helper()
	c, err := g.dial(within(g.t), to)
	if err != nil {
		g.t.Fatalf("connecting to %s: %v", to, err)
	}
	g.t.Cleanup(func() { c.abort() })
	return c
}

// udpConn is a socket of the guest's; failed gets what ICMP told it.
type udpConn struct {
	*gonet.UDPConn
	failed chan string
}

// dialUDP returns a connected socket of the guest's.
func (g *guest) dialUDP(to netip.AddrPort) udpConn {
	g.t.Helper()
	wq := new(waiter.Queue)
	ep, err := g.stack.NewEndpoint(udp.ProtocolNumber, ipv4.ProtocolNumber, wq)
	if err != nil {
		g.t.Fatal(err)
	}
	c := udpConn{gonet.NewUDPConn(wq, ep), make(chan string, 10)}
	entry := waiter.NewFunctionEntry(waiter.EventErr, func(waiter.EventMask) {
		if err := ep.LastError(); err != nil {
			c.failed <- err.String()
		}
	})
	wq.EventRegister(&entry)
	if err := ep.Connect(tcpip.FullAddress{NIC: 1, Addr: fromAddr(to.Addr()), Port: to.Port()}); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// resolver resolves as the guest's programs do.
func (g *guest) resolver(network string) *net.Resolver {
	server := netip.AddrPortFrom(g.network.Guest().DNS, dnsPort)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if network == "tcp" {
			return g.dial(ctx, server)
		}
		return gonet.DialUDP(g.stack, nil, &tcpip.FullAddress{NIC: 1, Addr: fromAddr(server.Addr()), Port: server.Port()}, ipv4.ProtocolNumber)
	}}
}

// host returns the guest's name for a port of the host's loopback.
func (g *guest) host(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(g.network.Guest().Gateway, port)
}

// listen returns a TCP listener on an address of the loopback.
func listen(t testing.TB, addr string) (net.Listener, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().(*net.TCPAddr).AddrPort()
}

// onAccept runs f with each connection of the listener.
func onAccept(t testing.TB, l net.Listener, f func(*net.TCPConn)) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer c.Close(); f(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
}

// dialICMP returns a connected ICMP socket of the guest's, as ping has.
func (g *guest) dialICMP(to netip.Addr) (*gonet.UDPConn, error) {
	wq := new(waiter.Queue)
	ep, err := g.stack.NewEndpoint(icmp.ProtocolNumber4, ipv4.ProtocolNumber, wq)
	if err != nil {
		return nil, stackError("socket", err)
	}
	if err := ep.Connect(tcpip.FullAddress{NIC: 1, Addr: fromAddr(to)}); err != nil {
		ep.Close()
		return nil, stackError("connect", err)
	}
	return gonet.NewUDPConn(wq, ep), nil
}
