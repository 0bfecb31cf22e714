package confine

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestPodDial: a connection to a port inside is made where a program inside listens, and nowhere else.
func TestPodDial(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	inside := false
	g := podGuest{&guest{cfg: hypervisor.Config{Listens: func(port uint16) (netip.AddrPort, bool) { return at, inside && port == at.Port() }}}}
	if c, err := g.Dial(t.Context(), at.Port()); err == nil || !strings.Contains(err.Error(), "no program inside") {
		t.Errorf("%v, %v", c, err)
	}
	inside = true
	c, err := g.Dial(t.Context(), at.Port())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
