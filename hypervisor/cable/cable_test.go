package cable

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
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
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// patience is how long a test waits for what must come.
const patience = 5 * time.Minute

const guestMAC = tcpip.LinkAddress("\x52\x55\x0a\x09\x50\x02")

// guest is the other end of a cable: a stack as a guest has one.
type guest struct {
	*Cable
	t     testing.TB
	far   net.Conn
	stack *stack.Stack
	host  tcpip.Address
}

func plug(t testing.TB, streams int) *guest {
	t.Helper()
	ours, far := net.Pipe()
	c, err := New(ours, streams, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{Cable: c, t: t, far: far, host: tcpip.AddrFromSlice(netip.MustParsePrefix(control.CableHost).Addr().AsSlice())}
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	link := channel.New(queueFrames, frameBytes, guestMAC)
	own := netip.MustParsePrefix(control.CableGuest)
	at := tcpip.AddressWithPrefix{Address: tcpip.AddrFromSlice(own.Addr().AsSlice()), PrefixLen: own.Bits()}
	if err := g.stack.CreateNIC(nic, ethernet.New(link)); err != nil {
		t.Fatal(err)
	}
	if err := g.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: at}, stack.AddressProperties{}); err != nil {
		t.Fatal(err)
	}
	g.stack.SetRouteTable([]tcpip.Route{{Destination: at.Subnet(), NIC: nic}})
	ctx, cancel := context.WithCancel(context.Background())
	sent, received := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for pkt := link.ReadContext(ctx); pkt != nil; pkt = link.ReadContext(ctx) {
			_, _ = far.Write(frame(pkt.ToView().AsSlice()))
			pkt.DecRef()
		}
	}()
	go func() {
		defer close(received)
		for {
			var length [lengthBytes]byte
			if _, err := io.ReadFull(far, length[:]); err != nil {
				return
			}
			b := make([]byte, binary.BigEndian.Uint32(length[:]))
			if _, err := io.ReadFull(far, b); err != nil {
				return
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
			link.InjectInbound(0, pkt)
			pkt.DecRef()
		}
	}()
	t.Cleanup(func() {
		far.Close()
		cancel()
		<-sent
		<-received
		g.wait()
		g.stack.Destroy()
		link.Close()
	})
	return g
}

// frame puts the length before a frame.
func frame(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// wait waits for the end of the cable.
func (g *guest) wait() {
	g.t.Helper()
	select {
	case <-g.Done():
	case <-time.After(patience):
		g.t.Fatal("the cable does not end")
	}
}

func (g *guest) dial(port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return gonet.DialContextTCP(ctx, g.stack, tcpip.FullAddress{NIC: nic, Addr: g.host, Port: uint16(port)}, ipv4.ProtocolNumber)
}

func (g *guest) mustDial(port int) net.Conn {
	g.t.Helper()
	c, err := g.dial(port)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

// Each stream carries its own bytes, whole and in order, in both directions at
// once; who reads before the guest has connected waits.
func TestStreams(t *testing.T) {
	g := plug(t, 2)
	random := rand.NewChaCha8([32]byte{1})
	done := make(chan error, 4)
	for i := range 2 {
		there, back := make([]byte, 3<<20), make([]byte, 3<<20)
		_, _ = random.Read(there)
		_, _ = random.Read(back)
		compare := func(r io.Reader, want []byte) {
			got := make([]byte, len(want))
			_, err := io.ReadFull(r, got)
			if err == nil && !bytes.Equal(got, want) {
				t.Errorf("stream %d: other bytes than were sent", i)
			}
			done <- err
		}
		s := g.Stream(i)
		go compare(s, there)
		conn := g.mustDial(control.CablePort + i)
		go compare(conn, back)
		go func() { _, _ = s.Write(back) }()
		go func() { _, _ = conn.Write(there) }()
	}
	for range 4 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("not everything arrives")
		}
	}
}

// A port takes one connection in its life, and there are no others.
func TestOnlyOnce(t *testing.T) {
	g := plug(t, 1)
	first := g.mustDial(control.CablePort)
	if _, err := first.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := g.Stream(0).Read(make([]byte, 10)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for _, port := range []int{control.CablePort, control.CablePort + 1, 22} {
		if c, err := g.dial(port); err == nil {
			t.Errorf("a connection to port %d", port)
			c.Close()
		}
	}
	first.Close()
	if n, err := g.Stream(0).Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("after the guest's end: %d, %v", n, err)
	}
	if c, err := g.dial(control.CablePort); err == nil {
		t.Error("a second connection after the first has ended")
		c.Close()
	}
}

// When the cable is cut, or a stream closed, nobody waits for ever.
func TestEnds(t *testing.T) {
	g := plug(t, 3)
	g.mustDial(control.CablePort)
	ended := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := g.Stream(i).Read(make([]byte, 1))
			ended <- err
		}()
	}
	if err := g.Stream(2).Close(); err != nil { // nobody has connected
		t.Error(err)
	}
	g.far.Close()
	for range 3 {
		select {
		case err := <-ended:
			if err != io.EOF {
				t.Errorf("Read: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("Read does not return")
		}
	}
	g.wait()
	if _, err := g.Stream(1).Write([]byte("x")); err == nil {
		t.Error("written to a cable that was cut")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// A guest can send what it likes: what is no frame is dropped, and the streams go
// on.
func TestHostileFrames(t *testing.T) {
	g := plug(t, 1)
	conn := g.mustDial(control.CablePort)
	for _, f := range hostile() {
		if _, err := g.far.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(g.Stream(0), got); err != nil || string(got) != "still here" {
		t.Errorf("%q, %v", got, err)
	}
}

// hostile are frames that nobody should send.
func hostile() [][]byte {
	ip := append(append([]byte(hostMAC), guestMAC...), 8, 0)
	return [][]byte{
		frame(nil),
		frame([]byte("x")),
		frame(make([]byte, frameBytes+1)),
		frame(make([]byte, frameBytes)),
		frame(bytes.Repeat([]byte{0xff}, headerBytes)),
		frame(ip),
		frame(append(ip, 0x4f, 0, 0xff, 0xff, 0, 0, 0, 0, 64, 6)),
		frame(append(ip, bytes.Repeat([]byte{0x45}, 60)...)),
		frame(append(append([]byte(hostMAC), guestMAC...), 8, 6, 0, 1, 8, 0, 6, 4, 0, 2)),
	}
}

// FuzzFrames: no bytes of the guest's end the process, or keep the cable from
// being closed.
func FuzzFrames(f *testing.F) {
	for _, b := range hostile() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, far := net.Pipe()
		c, err := New(ours, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, far) }()
		_ = far.SetWriteDeadline(time.Now().Add(patience))
		_, _ = far.Write(b)
		_ = far.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
