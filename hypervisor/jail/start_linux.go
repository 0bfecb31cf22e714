package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

var _ hypervisor.Mediator = (*Runtime)(nil)

// Runtime starts jails. It is safe for concurrent use.
type Runtime struct {
	o        Options
	log      *slog.Logger
	ahead    *Preparation
	landlock func() int // the version of Landlock, or 0
}

var (
	_ hypervisor.Runtime  = (*Runtime)(nil)
	_ hypervisor.Preparer = (*Runtime)(nil)
)

// New makes the runtime; nothing is started or read yet.
func New(o Options) *Runtime {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{o: o, log: log.With("component", "control"), ahead: o.Ahead}
	if r.ahead == nil {
		r.ahead = NewPreparation(o.GuestBinary)
	}
	if r.landlock = o.Landlock; r.landlock == nil {
		r.landlock = sync.OnceValue(kernelLandlock)
	}
	return r
}

// Name implements [hypervisor.Runtime].
func (r *Runtime) Name() string { return "jail" }

// Prepare implements [hypervisor.Preparer].
func (r *Runtime) Prepare() {
	if filters.Supported {
		r.ahead.Begin()
	}
}

// Start implements [hypervisor.Runtime].
func (r *Runtime) Start(ctx context.Context, cfg hypervisor.Config) (hypervisor.Guest, error) {
	if !filters.Supported {
		return nil, fmt.Errorf("jail: on amd64 and arm64 only: %w (%w)", hypervisor.ErrUnavailable, errors.ErrUnsupported)
	}
	if err := mayNest(); cfg.Containers && err != nil {
		return nil, err
	}
	if cfg.Programs32bit && !filters.Programs32bit {
		return nil, fmt.Errorf("jail: --32bit: only on amd64 are system calls of 32-bit programs judged: %w", hypervisor.ErrUnavailable)
	}
	u, err := chooseAccount(cfg.UID, cfg.GID)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	newGuest := func(noOverlay string) *guest {
		return &guest{
			log: r.log, user: u, cfg: cfg, env: defaultEnv(u), noOverlay: noOverlay, began: began,
			planned: make(chan struct{}), Life: remote.NewLife(),
		}
	}
	g := newGuest("")
	err = r.launch(ctx, g)
	if overlay := (*overlayError)(nil); errors.As(err, &overlay) && ctx.Err() == nil {
		g.endLimits()
		g = newGuest(overlay.Error())
		err = r.launch(ctx, g)
	}
	if err != nil && broken(err) != nil && ctx.Err() == nil { // a file that somebody replaced in that moment is covered the next time
		g.endLimits()
		g = newGuest(g.noOverlay)
		err = r.launch(ctx, g)
	}
	if err != nil {
		g.endLimits()                                                 // again does no harm
		if refused := (*deviceError)(nil); errors.As(err, &refused) { // whatever this machine can
			return nil, fmt.Errorf("jail: %w", err)
		}
		return nil, explainHost(fmt.Errorf("jail: %w", err))
	}
	g.plan.notes = append(g.plan.notes, g.limits.Warnings()...)
	for _, note := range g.plan.notes {
		r.log.Warn(note)
	}
	g.warnings = append(g.warnings, g.plan.notes...)
	return g, nil
}

// makePlan makes the plan of a guest and writes its first process's script.
func (r *Runtime) makePlan(g *guest, w *script.Writer) error {
	table, err := readMounts()
	if err != nil {
		return err
	}
	for again := true; again; again = g.reconsider() {
		if g.plan, g.refuse, err = makePlan(g.cfg, g.user, table, g.mediation != nil, g.noOverlay, g.wired.guest()); err != nil {
			return err
		}
	}
	if err := r.prepare(g); err != nil {
		return &overlayError{err}
	}
	b := birth{plan: &g.plan, sharing: g.sharing, listener: func(fd int) { g.listener = fd }, config: control.ShimConfig{Umask: r.o.Umask, Processes: g.limits.Processes(), Agents: slices.Sorted(maps.Keys(g.cfg.Agents))}, userID: os.Geteuid(), confined: g.confined}
	g.plan.memoryBytes = g.cfg.Limits.TmpBytes
	if b.limits = g.limits.Rlimits(); g.cfg.Limits.PIDs > 0 && !kernelAtLeast(5, 14) {
		g.plan.notes = append(g.plan.notes, "processes are counted together with all others of this user: before Linux 5.14")
	}
	for _, e := range g.env {
		b.config.Env = append(b.config.Env, control.Text(e))
	}
	return b.write(w)
}

func readMounts() ([]places.MountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return places.ParseMounts(f)
}

// launch starts PID 1 and follows it until it takes commands. On error
// nothing is left.
func (r *Runtime) launch(ctx context.Context, g *guest) (err error) {
	if err := r.chooseBridge(g); err != nil {
		return err
	}
	defer func() { _ = g.mediation.close() }()
	if err := r.share(g); err != nil {
		return err
	}
	if err := r.wire(g); err != nil {
		return err
	}
	if err := g.limit(); err != nil {
		return err
	}
	defer g.dropWays()
	if err := r.confine(g); err != nil {
		return err
	}
	if g.rules != nil {
		defer g.rules.Close()
	}
	program, err := r.ahead.Program()
	if err != nil {
		return err
	}
	s, err := script.New()
	if err != nil {
		return err
	}
	defer s.Free()
	w, err := r.spawn(g, s, program)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, g.pid1.Kill)
	defer stop()
	g.limits.Follow(func() int { return threadsOf(g.pid1.PID) })
	if err = g.limits.Add(g.pid1.PID); err == nil {
		err = idMap(g.pid1.PID)
	}
	if err == nil {
		err = g.holdPlaces()
	}
	if err == nil {
		err = g.follow(w)
	}
	if err == nil {
		g.warnings, err = g.host.Hello(ctx)
	}
	if err == nil {
		if s.Noted {
			g.warnings = append(g.warnings, noPrivateProc)
		}
		if g.plan.warning != "" {
			g.warnings = append(g.warnings, g.plan.warning)
		}
		return nil
	}
	g.pid1.Kill()
	<-g.Done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed := failure(w); failed != nil { // what we saw of it first may be its consequence
		return failed
	}
	return fmt.Errorf("%w; %w", err, g.Err())
}

// spawn makes PID 1, which then waits, and writes its script while the kernel
// makes its namespaces. On error nothing is left.
func (r *Runtime) spawn(g *guest, s *script.Script, program *os.File) (*script.Writer, error) {
	if err := g.connect(s, program); err != nil {
		return nil, err
	}
	defer s.CloseFDs()
	started := make(chan syscall.Errno, 1)
	w := script.NewWriter(s)
	go g.first(s, started)
	err := r.makePlan(g, w)
	close(g.planned)
	if errno := <-started; errno != 0 {
		g.endPlaces()
		return nil, errors.Join(fmt.Errorf("creating the namespaces: %w", errno), g.setup.Close(), g.host.Close())
	}
	if err != nil {
		g.pid1.Kill()
		<-g.Done()
	}
	return w, err
}

// connect makes what connects us with PID 1. On error nothing is left.
func (g *guest) connect(s *script.Script, program *os.File) (err error) {
	var ours []io.Closer // until there is no error
	defer func() {
		if err != nil {
			s.CloseFDs()
			for _, c := range ours {
				_ = c.Close()
			}
		}
	}()
	setup, setupIn, err := control.SocketPair()
	if err != nil {
		return err
	}
	defer setupIn.Close()
	ours = append(ours, setup)
	ctl, ctlIn, err := control.SocketPair()
	if err != nil {
		return err
	}
	defer ctlIn.Close()
	ours = append(ours, ctl)
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer errW.Close()
	ours = append(ours, errR)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if program == nil {
		if program, err = os.Open("/proc/self/exe"); err != nil {
			return err
		}
		defer program.Close()
	}
	rules := null
	if g.rules != nil {
		rules = g.rules.File()
	}
	for to, f := range []*os.File{null, null, errW, ctlIn, setupIn, program, rules} {
		if err := s.GiveFD(to, f); err != nil {
			return err
		}
	}
	if err := s.Block(); err != nil { // the script reads it
		return err
	}
	conn, err := control.NewFDConn(ctl)
	if err == nil {
		g.setup, err = control.NewFDConn(setup)
	}
	if err != nil {
		return err
	}
	g.host = control.NewHost(conn, func(err error) { g.log.Warn("message from the guest", "err", err) })
	serve := map[string]func(net.Listener){"": g.cfg.Inside}
	for name, a := range g.cfg.Agents {
		serve[name] = a.Serve
	}
	go remote.Inside(g.host, serve, func(err error) { g.log.Warn("a socket for programs inside", "err", err) })
	go func() {
		defer errR.Close()
		_, _ = io.Copy(&g.stderr, errR)
	}()
	return nil
}

// namespaces are those of a jail. The control groups are not among them but with containers, which mount their own: the host's mounts of them stay
// in the view, and a namespace would have the table of mounts name them from within ("/../..") while their directories begin where the host's do. Java and others
// put the two together to find their limits.
//
// In a pod, the network is the supervisor's, where nobody inside has a right.
func namespaces(containers, inPod bool) uintptr {
	all := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)
	if containers {
		all |= unix.CLONE_NEWCGROUP
	}
	if !inPod {
		all |= unix.CLONE_NEWNET
	}
	return all
}

// first makes PID 1, on a thread that lives as long as it: it is told of the death
// of the thread that made it, not of the process.
func (g *guest) first(s *script.Script, started chan<- syscall.Errno) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	pid, errno := script.Fork(namespaces(g.cfg.Containers, g.cfg.InPod()), s)
	g.pid1.PID, g.children = pid, newChildren(pid)
	started <- errno
	if errno == 0 {
		g.await()
	}
}

// follow lets PID 1 begin and serves the folders that it mounts, until it has
// become the shim.
func (g *guest) follow(w *script.Writer) error {
	if _, err := g.setup.Write([]byte{0}); err != nil {
		return err
	}
	if err := g.sendFolders(); err != nil {
		return err
	}
	var share [1]byte
	for {
		n, err := g.setup.Read(share[:])
		if n == 0 { // the end: it has closed its socket, or has ended
			if failed := failure(w); failed != nil {
				return failed
			}
			if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) { // a byte that it did not wait for was left
				return nil
			}
			return err
		}
		if err := g.serve(int(share[0])); err != nil {
			return err
		}
	}
}

// serve gives a mounted /dev/fuse to the bridge, or the listener to the bridges.
func (g *guest) serve(i int) error {
	gate := slices.ContainsFunc(g.plan.mounts, func(m mount) bool { return m.promotes() && m.share == i })
	files, ok := g.setup.TakeFDs(1)
	if gate && ok {
		var base []*os.File
		if base, ok = g.setup.TakeFDs(1); ok {
			files = append(files, base...)
		} else {
			_ = files[0].Close()
		}
	}
	if !ok && i == listenerByte && g.plan.mediated && g.listener != 0 {
		f, err := g.copyListener()
		if err != nil {
			return err
		}
		return g.mediate(f)
	}
	if ok && i == listenerByte && g.plan.mediated {
		return g.mediate(files[0])
	}
	if ok && i == wayByte {
		return g.takeWay(files[0])
	}
	if ok && i == cableByte && g.wired != nil {
		return g.serveCable(files[0])
	}
	if !ok || i < 0 || i >= g.plan.shares {
		return fmt.Errorf("PID 1 mounted share %d without a descriptor", i)
	}
	var s hypervisor.Share
	if folders := len(g.cfg.Shares); i < folders {
		s = g.cfg.Shares[i]
	} else {
		s = g.cfg.Gate(g.plan.paths[i])
	}
	t := g.transport(i, files[0])
	if gate {
		if err := g.promotes(&t, g.plan.paths[i], files[1]); err != nil {
			return errors.Join(err, files[0].Close())
		}
	}
	if err := s.Serve(t); err != nil {
		return fmt.Errorf("serving %s: %w", s.HostPath, err)
	}
	_, _ = g.setup.Write([]byte{0}) // it need not wait for this, and may be past it
	return nil
}
