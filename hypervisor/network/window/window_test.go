package window

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, s := range []Settings{
		{}, {Strategy: Off}, {Strategy: Fail}, {Strategy: Fail, BasePort: 1024, PortCount: 256, Loopback: "127.0.0.1"}, {Strategy: Fail, BasePort: 65520},
		{Strategy: RewireDevice, Loopback: "127.0.0.2", PortCount: 1}, {Strategy: RewirePort, BasePort: 65535, PortCount: 1},
	} {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Settings{
		{Strategy: "other"}, {PortCount: 1}, {Strategy: Off, BasePort: 2000}, {Loopback: "127.0.0.2"}, {Strategy: Fail, PortCount: 257}, {Strategy: Fail, PortCount: -1}, {Strategy: Fail, BasePort: 80},
		{Strategy: Fail, BasePort: 65521}, {Strategy: Fail, BasePort: -5}, {Strategy: Fail, Loopback: "10.0.0.1"}, {Strategy: Fail, Loopback: "::1"}, {Strategy: Fail, Loopback: "localhost"},
		{Strategy: RewireDevice, Loopback: "127.0.0.1"}, {Strategy: RewireDevice, BasePort: 2000}, {Strategy: RewirePort, Loopback: "127.0.0.2"},
	} {
		if err := s.Check(); !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
		if w, err := Allot(s); w != nil || !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: %v, %v", s, w, err)
		}
	}
	if w, err := Allot(Settings{Strategy: Off}); w != nil || err != nil || w.Variables() != nil || w.Close() != nil {
		t.Errorf("none: %v, %v", w, err)
	}
}

// TestReach: which ports are reached, and where, for each strategy; a port stays where it was, and a full window says so.
func TestReach(t *testing.T) {
	device := netip.MustParseAddr("127.88.0.7")
	for _, c := range []struct {
		window *Window
		want   []string // PORT at ADDRESS, or PORT no
	}{
		{&Window{strategy: RewirePort, base: 20000, count: 3, most: 3}, []string{"3000 at 127.0.0.1:20000", "20000 at 127.0.0.1:20001", "3000 at 127.0.0.1:20000", "20002 at 127.0.0.1:20002", "3001 no"}},
		{&Window{strategy: RewirePort, base: 20000, count: 2, most: 2}, []string{"20000 at 127.0.0.1:20000", "80 at 127.0.0.1:20001", "443 no", "80 at 127.0.0.1:20001"}},
		{&Window{strategy: RewireDevice, device: device, most: 2}, []string{"80 no", "3000 at 127.88.0.7:3000", "3001 at 127.88.0.7:3001", "3002 no", "3000 at 127.88.0.7:3000"}},
		{&Window{strategy: Fail, base: 20000, count: 2, most: 2}, []string{"3000 no", "20002 no", "20001 at 127.0.0.1:20001"}},
		{&Window{strategy: Fail, base: 20000, count: 2, most: 2, device: device}, []string{"20001 at 127.88.0.7:20001"}},
	} {
		w := c.window
		w.mapped = map[uint16]netip.AddrPort{}
		for _, want := range c.want {
			var port uint16
			_, _ = fmt.Sscan(want, &port)
			got := fmt.Sprintf("%d no", port)
			if at, err := w.Reach(port); err == nil {
				got = fmt.Sprintf("%d at %s", port, at)
				if again, ok := w.Reached(port); !ok || again != at {
					t.Errorf("%s: then %v", got, again)
				}
			}
			if got != want {
				t.Errorf("%s, %s: %s", w.strategy, want, got)
			}
		}
	}
}

// TestRefuses: with strategy fail a program listens in the window, and with a device there alone; others listen anywhere.
func TestRefuses(t *testing.T) {
	device := netip.MustParseAddr("127.0.0.2")
	window, at := Window{strategy: Fail, base: 20000, count: 16}, Window{strategy: Fail, base: 20000, count: 16, device: device}
	for _, c := range []struct {
		window *Window
		at     string
		ok     bool
	}{
		{&window, "0.0.0.0:20000", true}, {&window, "[::1]:20015", true}, {&window, "127.0.0.1:20016", false}, {&window, "127.0.0.1:19999", false}, {&window, "127.0.0.1:0", true},
		{&at, "127.0.0.2:20000", true}, {&at, "127.0.0.1:20000", false}, {&at, "0.0.0.0:20000", false}, {&at, "127.0.0.2:3000", false}, {&at, "127.0.0.1:0", true},
		{&Window{strategy: RewirePort, base: 20000, count: 16}, "127.0.0.1:3000", true}, {&Window{strategy: RewireDevice, device: device}, "127.0.0.1:3000", true},
	} {
		if why := c.window.Refuses(netip.MustParseAddrPort(c.at)); (why == "") != c.ok {
			t.Errorf("%s: %s at %s: %q", c.window.strategy, c.window, c.at, why)
		}
	}
}
