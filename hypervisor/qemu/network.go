package qemu

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// guestMTU is larger than an ethernet's: the frames go no further than to this
// process, and large ones cost an emulated guest a third of the time.
const guestMTU = 16 << 10

// plug gives QEMU one end of the guest's network cable and returns the other;
// nil for a guest without a network.
func (g *guest) plug(m *machine, f *wires) (*end, error) {
	if g.cfg.Network == nil {
		return nil, nil
	}
	o := g.o.Network
	o.Policy, o.Log = g.cfg.Network, g.log.With("component", "network")
	if o.MTU == 0 {
		o.MTU = guestMTU
	}
	var err error
	if o.GuestMAC, err = net.ParseMAC(control.CardMAC); err != nil {
		return nil, err
	}
	if !o.Subnet6.IsValid() {
		o.Subnet6 = netip.MustParsePrefix(network.UniqueLocal)
	}
	if g.net, err = network.New(o); err != nil {
		return nil, err
	}
	e, err := f.pair()
	if err != nil {
		return nil, err
	}
	m.network = e.option
	return e, nil
}

// serveNetwork serves the cable until QEMU ends.
func (g *guest) serveNetwork(cable *end) {
	if cable == nil {
		return
	}
	g.wired.Go(func() {
		conn, err := cable.conn(g.wiring)
		if err != nil {
			return // it has not started
		}
		if err := g.net.Serve(context.Background(), conn); err != nil {
			g.log.Error("the guest has lost its network", "err", err)
		}
	})
}

// networkPlan is how the guest sets up its card, or nil.
func (g *guest) networkPlan() *control.MachineNetwork {
	if g.net == nil {
		return nil
	}
	n := g.net.Guest()
	m := &control.MachineNetwork{
		Address: n.Address.Addr().As4(), Bits: n.Address.Bits(), Gateway: n.Gateway.As4(), MTU: n.MTU, ResolvConf: n.ResolvConf(), Trust: n.Trust,
	}
	if n.Gateway6.IsValid() {
		m.IPv6 = &control.MachineIPv6{
			Address: n.Address6.Addr().As16(), Bits: n.Address6.Bits(), Gateway: n.Gateway6.As16(), GatewayMAC: [6]byte([]byte(network.GatewayMAC)),
		}
	}
	return m
}

// networkFacts describe the network for people.
func (g *guest) networkFacts(f map[string]string) {
	f["network"] = "loopback only"
	if g.net == nil {
		return
	}
	f["network"] = fmt.Sprintf("%s (policy %s)", g.net.Guest().Address.Addr(), g.cfg.Network.Mode())
	if s := g.net.Stats(); s != (network.Stats{}) {
		f["network_dropped"] = strconv.FormatUint(s.Oversize+s.Foreign+s.Flooded+s.Queue, 10)
	}
}

// Dial implements [hypervisor.Dialer]: the guest's init connects, and the bytes pass through
// the control channel. It waits while the machine is paused.
func (g *guest) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if _, err := g.running(ctx); err != nil {
		return nil, fmt.Errorf("qemu: the machine is paused: %w", err)
	}
	return remote.Dial(ctx, g.host, "qemu", port)
}
