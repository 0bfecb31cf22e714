package confine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// Runtime starts guests behind Landlock. It is safe for concurrent use.
type Runtime struct {
	o        Options
	log      *slog.Logger
	program  func() (*os.File, error)
	mediates func() error
}

var _ hypervisor.Runtime = (*Runtime)(nil)

// New makes the runtime; nothing is started or read yet.
func New(o Options) *Runtime {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{o: o, log: log.With("component", "control")}
	r.program, r.mediates = sync.OnceValues(r.loadProgram), sync.OnceValue(jail.KernelMediates)
	return r
}

// Name implements [hypervisor.Runtime].
func (r *Runtime) Name() string { return "landlock" }

// loadProgram writes sandbox-guest to a sealed memfd, or opens this program.
func (r *Runtime) loadProgram() (*os.File, error) {
	if r.o.GuestBinary == nil {
		return os.Open("/proc/self/exe")
	}
	return control.SealedProgram(r.o.GuestBinary)
}

// possible returns why there can be no guest here, or nil.
func (r *Runtime) possible() error {
	if !filters.Supported {
		return fmt.Errorf("on amd64 and arm64 only: %w", errors.ErrUnsupported)
	}
	if err := abi(); err != nil {
		return err
	}
	return r.mediates()
}

// Probe implements [hypervisor.Runtime]: it starts an empty guest.
func (r *Runtime) Probe(ctx context.Context) error {
	g, err := r.Start(ctx, hypervisor.Config{SessionID: "probe", UID: -1, GID: -1})
	if err != nil {
		return err
	}
	return g.Stop(ctx)
}

// Start implements [hypervisor.Runtime].
func (r *Runtime) Start(ctx context.Context, cfg hypervisor.Config) (hypervisor.Guest, error) {
	if cfg.Network != nil && !cfg.InPod() {
		return nil, hypervisor.ErrNetwork
	}
	if cfg.UID > 0 && cfg.UID != os.Getuid() || cfg.GID > 0 && cfg.GID != os.Getgid() {
		return nil, fmt.Errorf("landlock: commands are this user's (uid %d): another needs the jail", os.Getuid())
	}
	if cfg.Bridge == hypervisor.BridgeFUSE {
		return nil, fmt.Errorf("landlock: a folder through FUSE would have to be mounted: take --bridge auto, or mediated: %w", hypervisor.ErrUnavailable)
	}
	if err := r.possible(); err != nil {
		return nil, hypervisor.Unavailable(fmt.Errorf("landlock: %w", err))
	}
	g := &guest{log: r.log, cfg: cfg, Life: remote.NewLife(), began: time.Now()}
	if cfg.InPod() {
		version, err := filters.LandlockVersion()
		if err == nil {
			g.sharing, err = jail.Sharing(cfg, version)
		}
		if err != nil {
			return nil, fmt.Errorf("landlock: %w", err)
		}
	}
	if err := r.launch(ctx, g); err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	if g.cfg.InPod() && g.cfg.Listens != nil {
		return podGuest{g}, nil
	}
	return g, nil
}

// launch starts the shim and follows it until it takes commands. On error nothing is left.
func (r *Runtime) launch(ctx context.Context, g *guest) (err error) {
	if g.cfg.Mediate == nil && len(g.cfg.Shares) > 0 {
		return errors.New("nobody answers the system calls of a mediated bridge here")
	}
	if g.folders, err = jail.Folders(g.cfg); err != nil {
		return err
	}
	if err := ownFolders(g.folders); err != nil {
		return err
	}
	secrets, notes, err := jail.Hidden(g.cfg)
	if err != nil {
		return err
	}
	for _, s := range secrets {
		g.hidden = append(g.hidden, s.Path)
	}
	if g.own, err = makeOwn(); err != nil {
		return err
	}
	defer func() {
		if err != nil && g.birth == nil {
			err = errors.Join(err, g.own.remove())
		}
	}()
	d, err := newDomains(g.folders, g.own.path, g.hidden, g.sharing != filters.NotShared)
	if err != nil {
		return err
	}
	defer d.close()
	if exe, eerr := os.Executable(); r.o.GuestBinary == nil && eerr == nil { // it may lie in /tmp
		d.shim.allow(exe, filters.LandlockRead)
		if d.shim.err != nil {
			return d.shim.err
		}
	}
	if err := r.spawn(g, d, newPromises(g.folders, g.hidden, g.own.path)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, g.birth.kill)
	defer stop()
	if err = g.serve(); err == nil {
		if g.warnings, err = g.host.Hello(ctx); err == nil {
			for _, note := range notes {
				g.log.Warn(note)
			}
			g.warnings = append(g.warnings, notes...)
			return nil
		}
	}
	g.birth.kill()
	<-g.Done()
	return errors.Join(ctx.Err(), err, g.Err())
}

// ownFolders returns an error if the workload, which has no capabilities, is not the
// folders' owner although this program may do everything.
func ownFolders(folders []string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return jail.RootOwns(folders)
}

// spawn starts the shim. On error nothing is left but the guest's directory.
func (r *Runtime) spawn(g *guest, d *domains, tried promises) (err error) {
	program, err := r.program()
	if err != nil {
		return err
	}
	ctl, ctlIn, err := control.SocketPair()
	if err != nil {
		return err
	}
	defer ctlIn.Close()
	conn, err := control.NewFDConn(ctl)
	if err != nil {
		return errors.Join(err, ctl.Close())
	}
	g.host = control.NewHost(conn, func(err error) { g.log.Warn("message from the guest", "err", err) })
	errR, errW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, g.host.Close())
	}
	defer errW.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, g.host.Close(), errR.Close())
	}
	defer null.Close()
	b := &birth{
		domain: int(d.shim.File().Fd()), tried: tried, filter: filters.Confined(g.cfg.Debug, g.sharing), path: "/proc/self/fd/" + strconv.Itoa(int(program.Fd())),
		files:  []uintptr{null.Fd(), null.Fd(), errW.Fd(), ctlIn.Fd(), d.commands.File().Fd()},
		config: control.ShimConfig{Umask: r.o.Umask, Confined: true, NotifyDir: filepath.Join(g.own.path, noticeDir)},
		kills:  make(chan struct{}), end: make(chan struct{}),
	}
	for _, e := range g.environment(hypervisor.Command{Env: defaultEnv()}) {
		b.config.Env = append(b.config.Env, control.Text(e))
	}
	if err := b.start(); err != nil {
		return errors.Join(err, g.host.Close(), errR.Close())
	}
	g.birth = b
	for _, l := range jail.Shared() {
		if err := unix.Prlimit(b.shim.PID, int(l.Resource), &unix.Rlimit{Cur: l.Value, Max: l.Value}, nil); err != nil {
			g.log.Warn("a limit is not kept", "of", l.What, "err", err)
		}
	}
	go func() {
		defer errR.Close()
		_, _ = io.Copy(&g.stderr, errR)
	}()
	go g.await()
	return nil
}
