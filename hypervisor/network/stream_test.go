package network

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

const (
	ordinaryTest = 64 << 10
	largeTest    = 4 << 20
)

// heldBack is a guest's flow, whose end outside reads when it is told to.
type heldBack struct {
	*guestConn
	outside net.Conn
}

// heldBackFlows returns flows from a guest to ends outside that read nothing. What the
// network takes from such a flow is at most its receive buffer and one of its reads.
func heldBackFlows(t *testing.T, s *streams, n int) []heldBack {
	ends := make(chan net.Conn, n)
	g := boot(t, loopback(t), Options{MTU: 65520, Limits: Limits{Buffer: 256 << 10},
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			ends <- theirs
			return ours, nil
		}})
	var flows []heldBack
	for range n {
		c := g.mustDial(g.host(80))
		end := actortest.Within(t, "a connection to the outside", ends)
		t.Cleanup(func() { _ = end.Close() })
		s.begin(c.ep)
		flows = append(flows, heldBack{c, end})
	}
	return flows
}

// fill writes more than an ordinary buffer and everything behind it take.
func (h heldBack) fill(t *testing.T) {
	t.Helper()
	if _, err := h.Write(make([]byte, largeTest/2)); err != nil {
		t.Fatal(err)
	}
}

// drained reads everything that was filled in.
func (h heldBack) drained(t *testing.T) {
	t.Helper()
	if _, err := io.CopyN(io.Discard, h.outside, largeTest/2); err != nil {
		t.Fatal(err)
	}
}

func (h heldBack) size() int64 { return h.ep.SocketOptions().GetSendBufferSize() }

func (s *streams) taken() (down, up int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.down), s.up
}

// A flow whose large buffer is in use keeps its place; one that has no more under way than
// an ordinary buffer holds loses it to whoever streams.
func TestStreamPlaces(t *testing.T) {
	s := &streams{ordinary: ordinaryTest, large: largeTest, places: 1}
	f := heldBackFlows(t, s, 2)
	a, b := f[0], f[1]
	if a.size() != ordinaryTest {
		t.Fatalf("a new flow has a buffer of %d bytes", a.size())
	}
	for _, when := range []string{"free", "its own"} {
		if !s.takeDown(a.guestConn) || a.size() != largeTest {
			t.Fatalf("the first flow did not get the place that is %s (%d bytes)", when, a.size())
		}
	}
	a.fill(t)
	for range 3 {
		if s.takeDown(b.guestConn) || b.size() != ordinaryTest || a.size() != largeTest {
			t.Fatalf("the second flow took the place from one that uses it (%d and %d bytes)", a.size(), b.size())
		}
	}
	a.drained(t)
	actortest.Eventually(t, "the first flow's buffer is empty", func() bool { return s.takeDown(b.guestConn) })
	if a.size() != ordinaryTest || b.size() != largeTest {
		t.Fatalf("the buffers have %d and %d bytes", a.size(), b.size())
	}
	if down, _ := s.taken(); down != 1 {
		t.Fatalf("%d places are taken", down)
	}
}

// At its end a flow keeps its place until the guest has taken what its buffer holds, or is
// gone.
func TestStreamEnd(t *testing.T) {
	for name, end := range map[string]func(*testing.T, heldBack){
		"taken": func(t *testing.T, a heldBack) { a.drained(t) },
		"gone":  func(_ *testing.T, a heldBack) { a.abort() },
	} {
		t.Run(name, func(t *testing.T) {
			s := &streams{ordinary: ordinaryTest, large: largeTest, places: 1}
			f := heldBackFlows(t, s, 2)
			a, b := f[0], f[1]
			if !s.takeDown(a.guestConn) {
				t.Fatal("no place")
			}
			a.fill(t)
			left := make(chan struct{})
			s.ending(a.guestConn)
			go func() { a.drain(); s.leaveDown(a.guestConn); close(left) }()
			actortest.Eventually(t, "the flow ends", func() bool { return a.size() < ordinaryTest })
			if s.takeDown(b.guestConn) || a.size() >= ordinaryTest {
				t.Fatal("the place of a flow that ends was taken before its buffer was empty")
			}
			select {
			case <-left:
				t.Fatal("the flow gave its place back with a full buffer")
			default:
			}
			end(t, a)
			actortest.Within(t, "the place is given back", left)
			if !s.takeDown(b.guestConn) {
				t.Fatal("the place was not given back")
			}
		})
	}
}

// A place from the guest is a flow's until its end.
func TestStreamPlacesUp(t *testing.T) {
	s := &streams{ordinary: ordinaryTest, large: largeTest, places: 1}
	f := heldBackFlows(t, s, 2)
	if !s.takeUp(f[0].guestConn) || s.takeUp(f[1].guestConn) {
		t.Fatal("want one place, for the first who asks")
	}
	s.leaveUp()
	if !s.takeUp(f[1].guestConn) {
		t.Fatal("the place was not given back")
	}
	if got := f[1].ep.SocketOptions().GetReceiveBufferSize(); got != largeTest {
		t.Fatalf("a buffer of %d bytes", got)
	}
}

// What streams through large buffers, and through those of flows for which there was no
// place, is complete, and the places are free again.
func TestStreamsBothWays(t *testing.T) {
	const flows, size = 4, 8 << 20
	at := echoServer(t, "127.0.0.1:0")
	g := bootLocal(t, loopback(t), Options{MTU: 65520, Limits: Limits{Streams: 2}})
	done := make(chan struct{}, flows)
	for i := range flows {
		go func() {
			defer func() { done <- struct{}{} }()
			c, err := g.dial(within(t), g.host(at.Port()))
			if err != nil {
				t.Errorf("flow %d: %v", i, err)
				return
			}
			defer c.Close()
			seed := [32]byte{byte(i)}
			go func() {
				_, _ = io.Copy(c, io.LimitReader(rand.NewChaCha8(seed), size))
				_ = c.CloseWrite()
			}()
			if err := sameBytes(c, io.LimitReader(rand.NewChaCha8(seed), size)); err != nil {
				t.Errorf("flow %d: %v", i, err)
			}
		}()
	}
	for range flows {
		actortest.Within(t, "a flow's end", done)
	}
	actortest.Eventually(t, "all places are free", func() bool {
		down, up := g.network.streams.taken()
		return down == 0 && up == 0
	})
}

// sameBytes reads both to their ends.
func sameBytes(a, b io.Reader) error {
	left, right := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := 0; ; {
		n, lerr := io.ReadFull(a, left)
		m, rerr := io.ReadFull(b, right)
		if n != m || !bytes.Equal(left[:n], right[:m]) {
			return fmt.Errorf("bytes %d to %d differ: %d and %d bytes (%v, %v)", at, at+max(n, m), n, m, lerr, rerr)
		}
		at += n
		if lerr != nil || rerr != nil {
			return nil
		}
	}
}

// On a cable to another machine there are no places.
func TestStreamsNotOnQEMUsCable(t *testing.T) {
	g := boot(t, loopback(t), Options{})
	c := g.mustDial(g.host(echoServer(t, "127.0.0.1:0").Port()))
	if g.network.streams.takeDown(c) || g.network.streams.takeUp(c) {
		t.Fatal("there is a place")
	}
}
