package window

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
)

// The variables by which programs inside know their window.
const (
	BaseVariable   = "LISTENING_BASE_PORT"
	CountVariable  = "LISTENING_PORT_COUNT"
	DeviceVariable = "LISTENING_LOOPBACK_DEVICE"
)

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Window is what one session has. Its methods are safe for concurrent use. mu is a leaf.
type Window struct {
	strategy Strategy
	base     uint16 // 0, with count 0, if ports keep their numbers
	count    int
	device   netip.Addr // invalid: none
	most     int
	held     []io.Closer

	mu     sync.Mutex
	mapped map[uint16]netip.AddrPort // by the port inside
}

// Allot takes a window for a session, or returns nil if there is to be none. An error wraps [ErrSettings] if the settings cannot be kept, [errors.ErrUnsupported] where windows cannot be held;
// else it says who has what was asked for, or that nothing is left. The window is held until it is closed, or this process ends.
func Allot(s Settings) (*Window, error) {
	if err := s.Check(); err != nil || s.None() {
		return nil, err
	}
	w := &Window{strategy: s.Strategy, most: s.count(), mapped: make(map[uint16]netip.AddrPort)}
	var err error
	if w.device, err = s.device(); err != nil {
		return nil, err
	}
	if s.Strategy == RewireDevice {
		return w, w.takeDevice()
	}
	w.count = s.count()
	return w, w.takePorts(s.BasePort)
}

// takePorts takes the window's ports, from base on if that is not 0.
func (w *Window) takePorts(base int) error {
	if base != 0 {
		if err := w.hold(base); err != nil {
			return fmt.Errorf("a window of ports from %d to %d: %w; choose others, or leave --listening-base-port out", base, base+w.count-1, err)
		}
		return nil
	}
	for base := poolBase; base+w.count <= poolEnd; base += w.count {
		if !free(base, w.count) {
			continue
		}
		switch err := w.hold(base); {
		case err == nil:
			return nil
		case !isTaken(err):
			return fmt.Errorf("a window of ports: %w", err)
		}
	}
	return fmt.Errorf("a window of %d ports: other sessions and programs have all between %d and %d; end some, or name ports by --listening-base-port", w.count, poolBase, poolEnd-1)
}

// hold holds the ports from base on, all or none.
func (w *Window) hold(base int) error {
	for port := base; port < base+w.count; port++ {
		l, err := hold("port-" + strconv.Itoa(port))
		if err != nil {
			_ = w.Close()
			return fmt.Errorf("port %d: %w", port, err)
		}
		w.held = append(w.held, l)
	}
	w.base = uint16(base)
	return nil
}

// free tells whether nobody listens at any of the ports now.
func free(base, count int) bool {
	for port := base; port < base+count; port++ {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(localhost, uint16(port)).String())
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// takeDevice takes the loopback address, or the first one that nobody has.
func (w *Window) takeDevice() error {
	if w.device.IsValid() {
		l, err := hold("loopback-" + w.device.String())
		if err != nil {
			return fmt.Errorf("the loopback address %s: %w; choose another one, or leave --listening-loopback out", w.device, err)
		}
		w.held = []io.Closer{l}
		return nil
	}
	for n := range 254 * 254 {
		device := netip.AddrFrom4([4]byte{127, 88, byte(n / 254), byte(n%254 + 1)})
		l, err := hold("loopback-" + device.String())
		switch {
		case err == nil:
			w.device, w.held = device, []io.Closer{l}
			return nil
		case !isTaken(err):
			return fmt.Errorf("a loopback address: %w", err)
		}
	}
	return fmt.Errorf("a loopback address: other sessions have all of 127.88.0.0/16; end some, or name one by --listening-loopback")
}

// Close gives the window back.
func (w *Window) Close() error {
	if w == nil {
		return nil
	}
	for _, l := range w.held {
		_ = l.Close()
	}
	w.held = nil
	return nil
}

// Strategy is the window's.
func (w *Window) Strategy() Strategy { return w.strategy }

// Device is the loopback address of the window, if it has one.
func (w *Window) Device() (a netip.Addr, ok bool) { return w.device, w.device.IsValid() }

// String says for people what the window is.
func (w *Window) String() string {
	ports := ""
	if w.count > 0 {
		ports = fmt.Sprintf("ports %d to %d", w.base, int(w.base)+w.count-1)
	}
	switch {
	case !w.device.IsValid():
		return ports
	case ports == "":
		return "the loopback address " + w.device.String()
	}
	return ports + " of " + w.device.String()
}

// Variables are what programs inside find in their environment.
func (w *Window) Variables() (env []string) {
	if w == nil {
		return nil
	}
	if w.count > 0 {
		env = append(env, BaseVariable+"="+strconv.Itoa(int(w.base)), CountVariable+"="+strconv.Itoa(w.count))
	}
	if w.device.IsValid() {
		env = append(env, DeviceVariable+"="+w.device.String())
	}
	return env
}

// Has tells whether a port is one of the window's.
func (w *Window) Has(port uint16) bool {
	return port >= w.base && int(port) < int(w.base)+w.count
}

// Refuses says why a program may not listen at an address; empty: it may. Port 0, for which the kernel chooses one that nobody has, is let through.
func (w *Window) Refuses(at netip.AddrPort) (why string) {
	switch {
	case w.strategy != Fail || at.Port() == 0:
		return ""
	case !w.Has(at.Port()):
		return fmt.Sprintf("this session listens at %s ($%s, $%s)", w, BaseVariable, CountVariable)
	case w.device.IsValid() && at.Addr() != w.device:
		return fmt.Sprintf("this session listens at %s ($%s) alone", w.device, DeviceVariable)
	}
	return ""
}

// Reached returns where a port inside is reached, if that was decided.
func (w *Window) Reached(port uint16) (at netip.AddrPort, ok bool) {
	if w == nil {
		return at, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok = w.mapped[port]
	return at, ok
}

// Reach decides where a port inside is reached, if that was not done before. It is an error if the window is full, or if the port is not one that is reached.
func (w *Window) Reach(port uint16) (at netip.AddrPort, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.mapped[port]; ok {
		return at, nil
	}
	if len(w.mapped) >= w.most {
		return at, fmt.Errorf("port %d cannot be reached from outside: this session has %d ports that are, which is all (--listening-port-count)", port, w.most)
	}
	switch {
	case port < leastPort && w.strategy != RewirePort:
		return at, fmt.Errorf("port %d cannot be reached from outside: it is below %d; use --network-strategy %s", port, leastPort, RewirePort)
	case w.strategy == RewireDevice:
		at = netip.AddrPortFrom(w.device, port)
	case w.strategy == Fail && !w.Has(port):
		return at, fmt.Errorf("port %d is none of %s", port, w)
	case w.strategy == Fail && w.device.IsValid():
		at = netip.AddrPortFrom(w.device, port)
	case w.strategy == Fail:
		at = netip.AddrPortFrom(localhost, port)
	default:
		at = netip.AddrPortFrom(localhost, w.spare(port))
	}
	w.mapped[port] = at
	return at, nil
}

// spare is the number in the window by which a port is reached: its own if that is one and is not another's, or the first that is nobody's. There is one.
func (w *Window) spare(port uint16) uint16 {
	taken := make(map[uint16]bool, len(w.mapped))
	for _, at := range w.mapped {
		taken[at.Port()] = true
	}
	if w.Has(port) && !taken[port] {
		return port
	}
	for n := w.base; ; n++ {
		if !taken[n] {
			return n
		}
	}
}

// Ports lists where ports inside are reached, in their order: "3000 at 127.0.0.1:20000".
func (w *Window) Ports() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ports := make([]uint16, 0, len(w.mapped))
	for p := range w.mapped {
		ports = append(ports, p)
	}
	slices.Sort(ports)
	for _, p := range ports {
		list = append(list, fmt.Sprintf("%d at %s", p, w.mapped[p]))
	}
	return list
}
