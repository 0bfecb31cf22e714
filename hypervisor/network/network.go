package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// HostName is the name by which the guest finds the host.
const HostName = policy.HostName

// UniqueLocal is the IPv6 range of guests (RFC 4193), which nobody else uses.
const UniqueLocal = "fd7a:5bc2:91e4:2::/64"

// Options of [New]. Only Policy is required.
type Options struct {
	// Policy decides and audits. It is shared, and not closed by the network.
	Policy *policy.Engine

	// Subnet is the guest's; the host is its second address, the DNS server the
	// third, the guest the fifteenth. The zero value means 10.0.2.0/24. What is in
	// it cannot be reached elsewhere.
	Subnet netip.Prefix
	// Subnet6 is the guest's IPv6 range, of at most 112 bits, with the same places in it for
	// the host and the guest. The zero value: the guest has no IPv6.
	Subnet6 netip.Prefix
	// HasIPv6 tells whether this machine can connect to IPv6 addresses, so that it is of use
	// to tell them; nil means one that looks for a route.
	HasIPv6 func() bool
	// GuestMAC is the guest's ethernet address, if it is known: then nobody asks for it.
	GuestMAC net.HardwareAddr
	// MTU in bytes, 576 to 65520; 0 means 1500.
	MTU    int
	Limits Limits

	// Resolver answers lookups; nil means the host's.
	Resolver Resolver
	// Dial connects to the outside; nil means [net.Dialer]. A connection that has
	// CloseWrite can be closed by halves.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Upstream connects a TCP flow through a proxy of the host's; a nil connection without
	// an error: there is none for it, and Dial connects. The domain is the name by which
	// the guest found the address, if we know one. Nil means no proxies.
	Upstream func(ctx context.Context, domain string, to netip.AddrPort) (net.Conn, error)
	// Intercept takes over connections to some hosts; nil means none.
	Intercept Interceptor
	// Ping sends one echo request and returns when it was answered; nil means a
	// socket of the host's.
	Ping func(ctx context.Context, to netip.Addr, seq uint16, payload []byte) error

	Log *slog.Logger
}

// Interceptor speaks TLS in a server's place, for hosts for which the user asked for
// that. It is safe for concurrent use; package inject has one.
type Interceptor interface {
	// Covers tells whether connections to this port of the host are its own.
	Covers(host string, port uint16) bool
	// Serve serves a connection to such a host until it is closed or ctx ends, and closes
	// it. Dial connects to the server; the policy has allowed it.
	Serve(ctx context.Context, guest net.Conn, host string, dial func(context.Context) (net.Conn, error)) error
	// Trust returns the certificates that programs inside are to trust, and the file in
	// which they look for them.
	Trust() (file, bundle string)
	// Environment returns what programs inside get of an environment.
	Environment(env []string) []string
}

// Limits bound what a guest can use; zero values mean the defaults in brackets.
type Limits struct {
	TCP     int // connections at a time (512)
	Opening int // of them undecided or connecting (128)
	UDP     int // flows at a time (512)
	Lookups int // names being resolved at a time (64)
	Pings   int // unanswered echo requests (64)

	NewFlows int // new flows, lookups and pings per second (1000), twice that at once
	Buffer   int // bytes buffered per TCP connection and direction (256 KiB)

	// On a [LocalCable], connections that stream have larger buffers, so that a jail's
	// download is not much slower than the loopback.
	Streams      int // of them at a time, in each direction (8)
	StreamBuffer int // bytes buffered for such a direction (4 MiB)

	DialTimeout time.Duration // for a connection to be made (30 s)
	UDPIdle     time.Duration // after which a UDP flow ends (60 s)
}

func (l *Limits) setDefaults() {
	for _, d := range []struct {
		value *int
		to    int
	}{{&l.TCP, 512}, {&l.Opening, 128}, {&l.UDP, 512}, {&l.Lookups, 64}, {&l.Pings, 64}, {&l.NewFlows, 1000}, {&l.Buffer, 256 << 10}, {&l.Streams, 8}, {&l.StreamBuffer, 4 << 20}} {
		if *d.value <= 0 {
			*d.value = d.to
		}
	}
	if l.DialTimeout <= 0 {
		l.DialTimeout = 30 * time.Second
	}
	if l.UDPIdle <= 0 {
		l.UDPIdle = time.Minute
	}
}

// Guest is what a guest has to set up for itself; by DHCP it learns the same.
type Guest struct {
	Address netip.Prefix // with the subnet's length
	Gateway netip.Addr
	DNS     netip.Addr
	MTU     int

	// Address6 and Gateway6 are not valid if the guest has no IPv6.
	Address6 netip.Prefix
	Gateway6 netip.Addr

	// Trust is what the file TrustFile is to hold, the certificates that programs trust;
	// both are empty if the host's stay.
	TrustFile, Trust string
}

// ResolvConf is a /etc/resolv.conf for the guest. Its long timeout lets a person
// decide about a name while the lookup waits.
func (g Guest) ResolvConf() string {
	return fmt.Sprintf("nameserver %s\noptions timeout:30 attempts:3\n", g.DNS)
}

// Stats count what was dropped without a decision, since the start.
type Stats struct {
	Oversize uint64 // frames longer than the MTU allows, or shorter than a header
	Foreign  uint64 // frames of other protocols, or from or to other addresses
	Flooded  uint64 // flows beyond Limits.NewFlows, Lookups or Pings
	Queue    uint64 // frames that the guest did not take in time
}

// Network is one guest's. Its methods are safe for concurrent use.
type Network struct {
	o     Options
	log   *slog.Logger
	guest Guest
	host  netip.Addr // the gateway, which is the host by another name

	served  atomic.Bool
	limiter *rate.Limiter
	tcp     slots
	udp     slots
	lookups slots
	pings   slots

	oversize, foreign, flooded atomic.Uint64
	link                       *link   // while serving
	streams                    streams // set before serving

	mu     sync.Mutex      // work is added under it, and not once ctx has ended
	ctx    context.Context // of the flows; ends when serving does
	cancel context.CancelFunc
	work   sync.WaitGroup

	noPing sync.Once
}

// New checks the options. The network does nothing before [Network.Serve].
func New(o Options) (*Network, error) {
	if o.Policy == nil {
		return nil, errors.New("network: no policy")
	}
	if !o.Subnet.IsValid() {
		o.Subnet = netip.MustParsePrefix("10.0.2.0/24")
	}
	if !o.Subnet.Addr().Is4() || o.Subnet.Bits() > 27 || o.Subnet.Masked() != o.Subnet {
		return nil, fmt.Errorf("network: subnet %s: an IPv4 range of at least 32 addresses is needed", o.Subnet)
	}
	if s := o.Subnet6; s.IsValid() && (!s.Addr().Is6() || s.Bits() > 112 || s.Masked() != s) {
		return nil, fmt.Errorf("network: subnet %s: an IPv6 range of at most 112 bits is needed", s)
	}
	if o.MTU == 0 {
		o.MTU = 1500
	}
	if o.Subnet6.IsValid() && (o.MTU < 1280 || o.GuestMAC == nil) {
		return nil, fmt.Errorf("network: MTU %d, guest %q: IPv6 needs 1280 and the guest's ethernet address", o.MTU, o.GuestMAC)
	}
	if o.MTU < 576 || o.MTU > 65520 {
		return nil, fmt.Errorf("network: MTU %d: 576 to 65520 is possible", o.MTU)
	}
	o.Limits.setDefaults()
	if o.Resolver == nil {
		o.Resolver = hostResolver{}
	}
	if o.HasIPv6 == nil {
		o.HasIPv6 = hasIPv6
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Ping == nil {
		o.Ping = hostPing
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := &Network{
		o: o, log: o.Log, host: nth(o.Subnet, 2),
		guest:   Guest{Address: netip.PrefixFrom(nth(o.Subnet, 15), o.Subnet.Bits()), Gateway: nth(o.Subnet, 2), DNS: nth(o.Subnet, 3), MTU: o.MTU},
		limiter: rate.NewLimiter(rate.Limit(o.Limits.NewFlows), 2*o.Limits.NewFlows),
		tcp:     make(slots, o.Limits.TCP), udp: make(slots, o.Limits.UDP), lookups: make(slots, o.Limits.Lookups), pings: make(slots, o.Limits.Pings),
		link: newLink(o),
	}
	if o.Subnet6.IsValid() {
		n.guest.Address6, n.guest.Gateway6 = netip.PrefixFrom(nth(o.Subnet6, 15), o.Subnet6.Bits()), nth(o.Subnet6, 2)
	}
	if o.Intercept != nil {
		n.guest.TrustFile, n.guest.Trust = o.Intercept.Trust()
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// nth returns the n-th address of a subnet.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// Guest says what the guest has to set up.
func (n *Network) Guest() Guest { return n.guest }

// Environment returns what programs inside may keep of an environment: what
// [Options.Intercept] leaves of it, and if the network
// connects through the host's proxies, not the variables that name these. Inside nobody
// reaches a proxy, and nobody needs one. What differs from our own was set for a command,
// and stays.
func (n *Network) Environment(env []string) []string {
	if n.o.Intercept != nil {
		env = n.o.Intercept.Environment(env)
	}
	if n.o.Upstream == nil {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, value, _ := strings.Cut(e, "=")
		return slices.Contains(proxyVariables, strings.ToUpper(name)) && value == os.Getenv(name)
	})
}

var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}

// Stats returns the counters.
func (n *Network) Stats() Stats {
	return Stats{Oversize: n.oversize.Load(), Foreign: n.foreign.Load(), Flooded: n.flooded.Load(), Queue: n.link.dropped.Load()}
}

// Serve is [Network.ServeCable] for QEMU's stream of frames.
func (n *Network) Serve(ctx context.Context, conn net.Conn) error {
	return n.ServeCable(ctx, newStream(conn))
}

// ServeCable serves the guest at the other end of the cable until that is cut or ctx
// ends, then ends all flows, closes the cable and returns when nothing is left. The
// error is nil if the guest's end was closed in order, or ctx ended. One of this and
// Serve may be called, once.
func (n *Network) ServeCable(ctx context.Context, cable Cable) error {
	defer cable.Close()
	if n.served.Swap(true) {
		return errors.New("network: served already")
	}
	if _, ok := cable.(LocalCable); ok {
		n.link.local()
		n.streams.ordinary, n.streams.large, n.streams.places = int64(n.o.Limits.Buffer), int64(n.o.Limits.StreamBuffer), n.o.Limits.Streams
	}
	s, err := n.newStack()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cable.Close() })
	defer stop()

	n.begin(func() {
		if err := n.link.write(n.ctx, cable); err != nil {
			_ = cable.Close() // so that the reader ends too
		}
	})
	err = n.read(cable)
	_ = cable.Close()
	n.end(s)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// begin runs f as part of the network's work, on a goroutine of its own; false if
// that is ending.
func (n *Network) begin(f func()) bool {
	if !n.enter() {
		return false
	}
	go func() {
		defer n.work.Done()
		f()
	}()
	return true
}

// enter counts the caller as part of the network's work, until it calls
// n.work.Done; false if that is ending.
func (n *Network) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return false
	}
	n.work.Add(1)
	return true
}

// end ends all work, and the stack.
func (n *Network) end(s *stack.Stack) {
	n.mu.Lock()
	n.cancel()
	n.mu.Unlock()
	done := make(chan struct{})
	go func() { n.work.Wait(); close(done) }()
	// Work that waits for the guest ends with its endpoint. A handshake may begin
	// after a round, hence several.
	for waiting := true; waiting; {
		for _, e := range s.RegisteredEndpoints() {
			e.Abort()
		}
		select {
		case <-done:
			waiting = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.Destroy()
	n.link.Close()
}

// judge decides about a flow without waiting. Addresses of the guest's own
// subnet are not the outside's.
func (n *Network) judge(p policy.Protocol, to netip.AddrPort) (policy.Target, policy.Verdict) {
	t := policy.Target{Protocol: p, Address: to}
	switch {
	case to.Addr() == n.host:
		t.Address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port())
	case to.Addr() == n.guest.Gateway6:
		t.Address = netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
	case n.o.Subnet.Contains(to.Addr()), n.o.Subnet6.Contains(to.Addr()):
		return t, policy.Verdict{Action: policy.Deny, Rule: "nothing there in the guest's own subnet"}
	}
	return t, n.o.Policy.Peek(t)
}

// flood tells whether there are too many new flows; then nothing is said about
// this one, and it may come again.
func (n *Network) flood() bool {
	if n.limiter.Allow() {
		return false
	}
	n.flooded.Add(1)
	return true
}

// slots is a semaphore that never waits.
type slots chan struct{}

func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) give() { <-s }

func toAddr(a tcpip.Address) netip.Addr {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return addr
}

func toAddrPort(a tcpip.Address, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(toAddr(a), port)
}

func fromAddr(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }

// stackError makes an error of the stack's.
func stackError(what string, err tcpip.Error) error {
	return errors.New("network: " + what + ": " + strings.ToLower(err.String()))
}
