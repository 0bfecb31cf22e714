package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/cable"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// Runtime starts virtual machines. It is safe for concurrent use.
type Runtime struct {
	o      Options
	log    *slog.Logger
	probed probed
}

var (
	_ hypervisor.Runtime = (*Runtime)(nil)
	_ hypervisor.Pauser  = (*guest)(nil)
)

// New makes the runtime; nothing is started or read yet.
func New(o Options) *Runtime {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	return &Runtime{o: o, log: log.With("component", "control")}
}

// Name implements [hypervisor.Runtime].
func (r *Runtime) Name() string { return "vm" }

// Seatbelt tells whether QEMU runs behind a profile of macOS' Seatbelt.
func (r *Runtime) Seatbelt() bool { return r.o.Seatbelt }

// Start implements [hypervisor.Runtime]. An error says why there is no machine, and
// wraps [hypervisor.ErrUnavailable], unless ctx or a folder is the reason.
func (r *Runtime) Start(ctx context.Context, cfg hypervisor.Config) (hypervisor.Guest, error) {
	if err := r.check(); err != nil {
		return nil, launchError{err}
	}
	if err := checkShares(cfg.Shares); err != nil {
		return nil, err
	}
	u, err := workload(cfg)
	if err != nil {
		return nil, err
	}
	host, err := r.examine(ctx)
	if err != nil {
		return nil, err
	}
	boot, cancel := context.WithTimeoutCause(ctx, r.o.BootTimeout, errBoot)
	defer cancel()
	g := &guest{
		log: r.log, o: r.o, cfg: cfg, user: u, began: time.Now(), refuse: refused(cfg, homes()...),
		cpus: r.processors(host.accel), accel: host.accel, Life: remote.NewLife(),
	}
	g.flood.log = g.log
	g.wiring, g.unplug = context.WithCancelCause(context.Background())
	if err := g.launch(boot, host); err != nil {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(context.Cause(boot), errBoot):
			err = fmt.Errorf("the guest did not come up within %v (a busy or emulated machine may need more: boot_timeout of [vm])%s", r.o.BootTimeout, g.lastWords())
		}
		return nil, launchError{fmt.Errorf("qemu: %w", err)}
	}
	return g, nil
}

// launchError is why a machine did not come up.
type launchError struct{ error }

func (e launchError) Unwrap() error { return e.error }

// Is makes it an [hypervisor.ErrUnavailable], without adding to what it says.
func (e launchError) Is(target error) bool { return target == hypervisor.ErrUnavailable }

// errBoot marks the end of Options.BootTimeout.
var errBoot = errors.New("the guest takes too long")

// processors is how many the guest gets.
func (r *Runtime) processors(accel string) int {
	switch {
	case r.o.CPUs > 0:
		return r.o.CPUs
	case accel == "tcg":
		return 1
	}
	return min(4, runtime.NumCPU())
}

// launch starts QEMU and follows it until the guest takes commands. On error
// nothing is left.
func (g *guest) launch(ctx context.Context, host host) (err error) {
	f := wires{named: g.o.Named, parent: g.o.Sockets, log: g.log, known: make(chan struct{})}
	started := false
	defer func() {
		if !started {
			f.started(0)
			f.drop(true)
		}
	}()
	m := machine{
		os: runtime.GOOS, arch: g.o.Arch, accel: host.accel, seccomp: host.seccomp, firmware: host.firmware, name: "sandbox-" + g.cfg.SessionID,
		memoryMiB: g.o.MemoryBytes >> 20, cpus: g.cpus, extra: g.o.Append,
	}
	if err := g.image(ctx, &m, &f); err != nil {
		return err
	}
	if g.cfg.InPod() { // it would be ours
		return fmt.Errorf("a machine has a network card of its own: %w", hypervisor.ErrNetwork)
	}
	var w wired
	if err := g.wire(&m, &f, &w); err != nil {
		return err
	}
	defer w.monitor.close()
	g.said.Add(1)
	go g.readConsole(w.console) // to the end of QEMU, or of its ends if it does not start
	g.serveNetwork(w.network)
	g.disks = f.disks
	line, err := g.line(host.program, m)
	if err != nil {
		return err
	}
	g.wired.Add(1) // for the monitor: QEMU may end at once
	if err := g.spawn(line[0], line[1:], f.inherit); err != nil {
		return err
	}
	started = true
	f.started(g.child.pid())
	f.drop(false) // so that its end is seen
	defer f.tidy()
	stop := context.AfterFunc(ctx, g.child.Kill)
	defer stop()
	if err := g.connect(ctx, w); err != nil {
		g.giveUp(err)
		<-g.Done()
		if refused := (*control.RefusedError)(nil); errors.As(err, &refused) { // its end says less
			return fmt.Errorf("%w%s", refused, g.lastWords())
		}
		return g.Err()
	}
	return nil
}

// line is the command line that runs the machine.
func (g *guest) line(program string, m machine) ([]string, error) {
	if !g.o.Seatbelt {
		return append([]string{program}, m.args()...), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	return m.behindSeatbelt(filepath.EvalSymlinks, program, home)
}

// wired are our sides of the machine's connections.
type wired struct {
	console, channel *end
	monitor          monitorEnd
	network          *end // nil: there is no card
	folders          []*end
}

// wire makes the connections, and says on the machine's command line which they are.
func (g *guest) wire(m *machine, f *wires, w *wired) (err error) {
	if w.console, err = f.pair(); err != nil {
		return err
	}
	if w.channel, err = f.pair(); err != nil {
		return err
	}
	m.console, m.control = w.console.option, w.channel.option
	if w.folders, err = g.folders(m, f); err != nil {
		return err
	}
	if w.network, err = g.plug(m, f); err != nil {
		return err
	}
	if w.monitor, err = f.monitor(); err != nil {
		return err
	}
	m.monitor = w.monitor.option
	return nil
}

// folders makes the connections of the working folders: one for each, or the
// cable.
func (g *guest) folders(m *machine, f *wires) (ours []*end, err error) {
	if g.o.NineP {
		e, err := f.pair()
		if err != nil {
			return nil, err
		}
		m.cable = e.option
		return []*end{e}, nil
	}
	for i := range g.cfg.Shares {
		e, err := f.pair()
		if err != nil {
			return nil, err
		}
		m.shares, ours = append(m.shares, shareDevice{tag: tag(i), end: e.option}), append(ours, e)
	}
	return ours, nil
}

// giveUp ends a machine that does not come up, unless it has ended by itself: a
// broken connection is what is seen of that first.
func (g *guest) giveUp(err error) {
	if errors.Is(err, control.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		select {
		case <-g.Done():
			return
		case <-time.After(ownEnd):
		}
	}
	g.end(err)
}

// tag is the name of a folder's device.
func tag(i int) string { return "working" + strconv.Itoa(i) }

// connect greets the monitor, serves the folders, and tells the guest what it is
// to be. On error the monitor's greeting may go on: QEMU's end, for which the
// caller waits, ends it.
func (g *guest) connect(ctx context.Context, w wired) error {
	monitor := make(chan error, 1)
	go func() {
		defer g.wired.Done()
		monitor <- g.greet(ctx, w.monitor)
	}()
	if err := g.serve(w.folders); err != nil {
		return errors.Join(err, w.channel.Close())
	}
	conn, err := w.channel.conn(g.wiring)
	if err != nil {
		return err
	}
	unsent := g.plan().Send(conn)
	g.setHost(control.NewHost(conn, g.problem))
	g.warnings, err = g.host.Hello(ctx) // it may say why it did not want the plan
	if err = errors.Join(err, unsent); err != nil {
		g.giveUp(err) // or the monitor might not answer
	}
	if err := errors.Join(err, <-monitor); err != nil {
		return err
	}
	go g.follow()
	return nil
}

// serve starts the bridges of the folders. It takes over the ends.
func (g *guest) serve(folders []*end) error {
	var over *cable.Cable
	if g.o.NineP {
		conn, err := folders[0].conn(g.wiring)
		if err != nil {
			return err
		}
		if over, err = cable.New(conn, len(g.cfg.Shares), g.log); err != nil { // ends with QEMU
			return err
		}
	}
	for i, s := range g.cfg.Shares {
		t := hypervisor.Transport{
			Kind: hypervisor.TransportVhost, UID: uint32(g.user.uid), GID: uint32(g.user.gid), Hide: g.refuse[i],
			Drop: g.dropCaches, Sync: g.sync, Wake: remote.Wake(g.theHost, s.GuestPath),
		}
		if over != nil {
			t.Kind, t.Stream = hypervisor.TransportP9, over.Stream(i)
		} else {
			t.File = folders[i].file
		}
		if err := s.Serve(t); err != nil {
			if over == nil {
				for _, f := range folders[i+1:] {
					_ = f.Close()
				}
			}
			return fmt.Errorf("serving %s: %w", s.HostPath, err)
		}
	}
	return nil
}

// plan is what the guest is to be.
func (g *guest) plan() control.MachinePlan {
	p := control.MachinePlan{
		Hostname: g.cfg.Hostname, TimeNS: time.Now().UnixNano(), UID: g.user.uid, GID: g.user.gid, Umask: g.o.Umask,
		RootFS: g.rootfs, Disk: g.o.Disk.Path != "",
	}
	if p.Hostname == "" {
		p.Hostname = "sandbox"
	}
	for _, e := range defaultEnv() {
		p.Env = append(p.Env, control.Text(e))
	}
	for i, s := range g.cfg.Shares {
		p.Shares = append(p.Shares, control.MachineShare{Tag: tag(i), Path: control.Text(s.GuestPath), NineP: g.o.NineP, ReadOnly: s.ReadOnly})
	}
	p.Network = g.networkPlan()
	return p
}

// image opens the kernel and the initramfs for QEMU.
func (g *guest) image(ctx context.Context, m *machine, f *wires) error {
	img, err := g.o.Image(ctx)
	if err != nil {
		return err
	}
	g.kernel = img.Version
	if img.RootFS != nil {
		g.rootfs = true
		if m.rootfs, err = f.drive(img.RootFS); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		file *os.File
		path *string
	}{{img.Kernel, &m.kernel}, {img.Initrd, &m.initrd}} {
		file := p.file
		if !f.named {
			if file, err = readable(p.file); err != nil {
				return err
			}
		}
		if *p.path, err = f.file(file); err != nil {
			return err
		}
	}
	if g.o.Disk.Path == "" {
		return nil
	}
	disk, err := g.o.Disk.Open(ctx)
	if err == nil {
		m.disk, err = f.drive(disk)
	}
	return err
}
