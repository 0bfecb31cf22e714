package window

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrSettings is wrapped by errors about settings that cannot be kept.
var ErrSettings = errors.New("window: settings")

// Strategy is what is done about programs of several sessions that listen at the same port: a word of --network-strategy.
type Strategy string

// The strategies.
const (
	// Off: nothing is.
	Off Strategy = "off"
	// Fail: programs listen in the session's window of ports, and are refused other ports.
	Fail Strategy = "fail"
	// RewireDevice: a port is reached at the session's own loopback address, by its own number.
	RewireDevice Strategy = "rewire-device"
	// RewirePort: a port is reached at 127.0.0.1, by a number of the session's window.
	RewirePort Strategy = "rewire-port"
)

// Strategies are their words.
func Strategies() []string {
	return []string{string(Off), string(Fail), string(RewireDevice), string(RewirePort)}
}

const (
	// DefaultCount is how many ports a window has if nobody says it.
	DefaultCount = 16
	// MaxCount is how many it can have.
	MaxCount = 256
	// poolBase and poolEnd are the ports of which windows are allotted: they lie below those that Linux takes for connections, and below what it gives who asks for none.
	poolBase, poolEnd = 20000, 30000
	// leastPort is the first that needs no right.
	leastPort = 1024
)

// Settings say which window a session is to have. The zero value is none.
type Settings struct {
	Strategy Strategy
	// BasePort is the first port; 0: one is chosen.
	BasePort int
	// PortCount is how many ports there are, or with RewireDevice how many can be reached; 0 means [DefaultCount].
	PortCount int
	// Loopback is the loopback address, of IPv4. With RewireDevice, empty: one is chosen. With Fail programs listen only there; empty: at any address.
	Loopback string
}

// None tells whether there is to be no window.
func (s Settings) None() bool { return s.Strategy == "" || s.Strategy == Off }

// count is PortCount, or what it is by default.
func (s Settings) count() int {
	if s.PortCount == 0 {
		return DefaultCount
	}
	return s.PortCount
}

// device is Loopback; the zero value if that is empty.
func (s Settings) device() (netip.Addr, error) {
	if s.Loopback == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s.Loopback)
	if err != nil || !a.Is4() || !a.IsLoopback() {
		return a, fmt.Errorf("%w: listening_loopback %q is no address of the loopback: write one of 127.0.0.0/8, such as 127.0.0.2", ErrSettings, s.Loopback)
	}
	return a, nil
}

// Check returns what is wrong with the settings; an error wraps [ErrSettings].
func (s Settings) Check() error {
	device, err := s.device()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSettings, fmt.Sprintf(format, args...))
	}
	switch set := s.BasePort != 0 || s.PortCount != 0 || s.Loopback != ""; {
	case s.None() && set:
		return fail("a window of ports without a strategy: add --network-strategy %s", strings.Join(Strategies()[1:], ", or "))
	case s.None():
		return nil
	case s.Strategy != Fail && s.Strategy != RewireDevice && s.Strategy != RewirePort:
		return fail("there is no strategy %q: use %s", s.Strategy, strings.Join(Strategies(), ", "))
	case err != nil:
		return err
	case s.count() < 1 || s.count() > MaxCount:
		return fail("listening_port_count %d: a window has 1 to %d ports", s.PortCount, MaxCount)
	case s.Strategy == RewireDevice && s.BasePort != 0:
		return fail("listening_base_port: with %s ports keep their numbers; leave it out, or use %s", s.Strategy, RewirePort)
	case s.BasePort != 0 && (s.BasePort < leastPort || s.BasePort+s.count() > 1<<16):
		return fail("listening_base_port %d: %d ports from there on are not all between %d and %d", s.BasePort, s.count(), leastPort, 1<<16-1)
	case s.Strategy == RewirePort && s.Loopback != "":
		return fail("listening_loopback: with %s ports are reached at 127.0.0.1; leave it out, or use %s", s.Strategy, RewireDevice)
	case s.Strategy == RewireDevice && device == localhost:
		return fail("listening_loopback %s is everybody's: choose another address of 127.0.0.0/8, or leave it out", device)
	}
	return nil
}
