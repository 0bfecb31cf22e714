package jail

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// The owner of a socket is found by its address: here this process itself, over both versions of IP.
func TestSocketOwner(t *testing.T) {
	for _, c := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"udp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"udp", ":0"}} {
		var at net.Addr
		if c.network == "tcp" {
			l, err := net.Listen(c.network, c.address)
			if err != nil {
				t.Logf("%v: no such address here", c)
				continue
			}
			defer l.Close()
			at = l.Addr()
		} else {
			l, err := net.ListenPacket(c.network, c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			at = l.LocalAddr()
		}
		source := netip.MustParseAddrPort(at.String())
		if pid, ok := socketOwner(os.Getpid(), c.network, source); !ok || pid != os.Getpid() {
			t.Errorf("%v: %d, %t", c, pid, ok)
		}
		other := map[string]string{"tcp": "udp", "udp": "tcp"}[c.network]
		if pid, ok := socketOwner(os.Getpid(), other, source); ok && pid == os.Getpid() {
			t.Errorf("%v: found as %s", c, other)
		}
	}
	for _, bad := range []string{"", "x:y", "0100007F", "0100007F:123456", "01:50"} {
		if a, ok := parseAddress(bad); ok {
			t.Errorf("%q is %v", bad, a)
		}
	}
}
