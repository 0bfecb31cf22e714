package qemu

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor/network"
)

// guestMTU is larger than an ethernet's: the frames go no further than to this
// process, and large ones cost an emulated guest a third of the time.
const guestMTU = 16 << 10

// plug gives QEMU one end of the guest's network cable and returns the other;
// nil for a guest without a network.
func (g *guest) plug(m *machine, f *files) (net.Conn, error) {
	if g.cfg.Network == nil {
		return nil, nil
	}
	o := g.o.Network
	o.Policy, o.Log = g.cfg.Network, g.log.With("component", "network")
	if o.MTU == 0 {
		o.MTU = guestMTU
	}
	var err error
	if g.net, err = network.New(o); err != nil {
		return nil, err
	}
	end, ours, err := f.pair()
	if err != nil {
		return nil, err
	}
	m.network = "addr.type=fd,addr.str=" + strings.TrimPrefix(end, "fd=")
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	_ = ours.Close() // conn has a duplicate
	f.keep = append(f.keep, conn)
	return conn, nil
}

// serveNetwork serves the cable until QEMU ends.
func (g *guest) serveNetwork(cable net.Conn) {
	if cable == nil {
		return
	}
	g.wired.Go(func() {
		if err := g.net.Serve(context.Background(), cable); err != nil {
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
	return &control.MachineNetwork{
		Address: n.Address.Addr().As4(), Bits: n.Address.Bits(), Gateway: n.Gateway.As4(), MTU: n.MTU, ResolvConf: n.ResolvConf(),
	}
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
