package jail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

const (
	// cableByte comes with the network's cable over the setup socket, where a folder's
	// number comes with a /dev/fuse.
	cableByte = 0xfe
	// guestMTU is as large as that of a loopback interface: the frames go no further than
	// to this process.
	guestMTU = 65520
)

// wiring is a guest's network; nil for a guest without one.
type wiring struct {
	net    *network.Network
	ctx    context.Context // of the service
	cancel context.CancelFunc

	mu     sync.Mutex
	served chan struct{} // closed when it has ended; nil before it began
}

// wire makes the network of a guest that is to have one.
func (r *Runtime) wire(g *guest) error {
	if g.cfg.Network == nil || g.cfg.InPod() {
		return nil
	}
	if err := network.TapOpens(); err != nil {
		return fmt.Errorf("the network: %w", err)
	}
	o := r.o.Network
	o.Policy, o.Log, o.GuestMAC = g.cfg.Network, r.log.With("component", "network"), net.HardwareAddr(network.TapMAC)
	if o.MTU == 0 {
		o.MTU = guestMTU
	}
	if !o.Subnet6.IsValid() {
		o.Subnet6 = netip.MustParsePrefix(network.UniqueLocal)
	}
	n, err := network.New(o)
	if err != nil {
		return err
	}
	g.wired = &wiring{net: n}
	g.wired.ctx, g.wired.cancel = context.WithCancel(context.Background())
	return nil
}

// networkUp makes the network card, and hands its other end to the supervisor.
func networkUp(w *script.Writer, n *network.Guest) {
	if n == nil {
		return
	}
	what := "opening " + network.TapPath
	card := w.Open(what, unix.SYS_OPENAT, script.Cwd, w.Text(network.TapPath), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK)
	what = "making a network device"
	w.Call(what, unix.SYS_IOCTL, card, unix.TUNSETIFINDEX, w.Words(network.TapIndex)) // little endian
	w.Call(what, unix.SYS_IOCTL, card, unix.TUNSETIFF, w.Bytes(network.AttachTap()))
	socket := w.Open(what, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	answer := make([]byte, 1024)
	for _, m := range network.TapMessages(*n) {
		w.Call(m.What, unix.SYS_SENDTO, socket, w.Bytes(m.Data), uintptr(len(m.Data)), 0, 0, 0).Expect(uintptr(len(m.Data)))
		// There is an answer, at once, only if it failed.
		failed := w.Call(m.What, unix.SYS_RECVFROM, socket, w.Bytes(answer), uintptr(len(answer)), unix.MSG_DONTWAIT, 0, 0)
		failed.May = unix.EAGAIN
		if m.What != "" {
			failed.Expect(0)
		}
	}
	w.Close(socket)
	w.Send("handing the network over", script.Setup, cableByte, card)
	w.Close(card)
}

// serveCable serves the guest's network card until the guest has ended.
func (g *guest) serveCable(card *os.File) error {
	w := g.wired
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served != nil || w.ctx.Err() != nil {
		return errors.Join(errors.New("PID 1 made two network cards, or has ended"), card.Close())
	}
	cable, err := network.NewTap(card)
	if err != nil {
		return errors.Join(err, card.Close())
	}
	w.served = make(chan struct{})
	go func() {
		defer close(w.served)
		if err := w.net.ServeCable(w.ctx, cable); err != nil {
			g.log.Error("the guest has lost its network", "err", err)
		}
	}()
	return nil
}

// end ends the service and waits for that. It is called when the guest has ended.
func (w *wiring) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.cancel()
	served := w.served
	w.mu.Unlock()
	if served != nil {
		<-served
	}
}

// guest is what PID 1 sets up, or nil.
func (w *wiring) guest() *network.Guest {
	if w == nil {
		return nil
	}
	n := w.net.Guest()
	return &n
}

// networkFacts describe the network for people.
func (g *guest) networkFacts(f map[string]string) {
	f["network"] = "loopback only"
	if g.cfg.InPod() {
		f["network"] = fmt.Sprintf("this program's own (policy %s)", g.cfg.Network.Mode())
	}
	if g.wired == nil {
		return
	}
	f["network"] = fmt.Sprintf("%s (policy %s)", g.wired.net.Guest().Address.Addr(), g.cfg.Network.Mode())
	if s := g.wired.net.Stats(); s != (network.Stats{}) {
		f["network_dropped"] = strconv.FormatUint(s.Oversize+s.Foreign+s.Flooded+s.Queue, 10)
	}
}

// Dial implements [hypervisor.Dialer]: PID 1 connects, and hands the connection over.
func (g *guest) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return remote.Dial(ctx, g.host, "jail", port)
}

const resolvConf = "/etc/resolv.conf"

// addResolver has programs ask the network's DNS server, or those that this program asks.
func (p *planner) addResolver(n *network.Guest) (warning string) {
	path := followLinks(resolvConf)
	if conf, err := os.ReadFile(path); p.cfg.InPod() && err == nil && p.isCovered(path) && !p.inShare(path) {
		p.add(mount{op: opFile, path: path, content: string(conf), make: true})
	}
	if n == nil {
		return ""
	}
	if p.concealed(path) {
		return resolvConf + " is hidden: programs inside cannot look names up"
	}
	m := mount{op: opFile, path: path, content: n.ResolvConf(), make: p.isCovered(path) && !p.inShare(path)}
	if _, err := os.Lstat(path); !m.make && (err != nil || p.inShare(path)) {
		return "this machine has no " + resolvConf + " that could be replaced: programs inside cannot look names up"
	}
	p.add(m)
	return ""
}

// addTrust has programs trust the network's certificates beside the host's.
func (p *planner) addTrust(n *network.Guest) error {
	if n == nil || n.TrustFile == "" {
		return nil
	}
	path := followLinks(n.TrustFile)
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || p.inShare(path) || p.isCovered(path) || p.concealed(path) {
		return fmt.Errorf("the certificates in %s cannot be added to inside: it must be a file, outside of the working folders and of what is hidden", n.TrustFile)
	}
	p.add(mount{op: opFile, path: path, content: n.Trust})
	return nil
}

// followLinks returns where a name leads, also if nothing is there.
func followLinks(path string) string {
	for range 40 {
		path = filepath.Join(places.ResolveMount(filepath.Dir(path)), filepath.Base(path))
		target, err := os.Readlink(path)
		switch {
		case err != nil:
			return path
		case filepath.IsAbs(target):
			path = target
		default:
			path = filepath.Join(filepath.Dir(path), target)
		}
	}
	return path
}
