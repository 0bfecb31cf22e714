package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
)

// Runtime starts jails. It is safe for concurrent use.
type Runtime struct {
	o       Options
	log     *slog.Logger
	program func() (*os.File, error) // the memfd, or nil for /proc/self/exe
}

var _ hypervisor.Runtime = (*Runtime)(nil)

// New makes the runtime; nothing is started or read yet.
func New(o Options) *Runtime {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{o: o, log: log.With("component", "control")}
	r.program = sync.OnceValues(r.loadProgram)
	return r
}

// Name implements [hypervisor.Runtime].
func (r *Runtime) Name() string { return "jail" }

// loadProgram writes sandbox-guest to a sealed memfd.
func (r *Runtime) loadProgram() (*os.File, error) {
	if r.o.GuestBinary == nil {
		return nil, nil
	}
	data, err := r.o.GuestBinary()
	if err != nil {
		return nil, fmt.Errorf("the program sandbox-guest: %w", err)
	}
	fd, err := unix.MemfdCreate(control.GuestProgram, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(control.GuestProgram, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), control.GuestProgram)
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(os.NewSyscallError("sealing the memfd", err), f.Close())
	}
	return f, nil
}

// Start implements [hypervisor.Runtime].
func (r *Runtime) Start(ctx context.Context, cfg hypervisor.Config) (hypervisor.Guest, error) {
	if cfg.Network != nil {
		return nil, hypervisor.ErrNetwork
	}
	u, err := workload(cfg)
	if err != nil {
		return nil, err
	}
	g := &guest{log: r.log, user: u, cfg: cfg, env: defaultEnv(u), done: make(chan struct{}), began: time.Now()}
	if err := r.launch(ctx, g); err != nil {
		return nil, explain(fmt.Errorf("jail: %w", err))
	}
	return g, nil
}

// makePlan completes the plan of a guest.
func (r *Runtime) makePlan(g *guest) error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	if g.plan, g.refuse, err = makePlan(g.cfg, g.user, mounts); err != nil {
		return err
	}
	g.plan.Umask = r.o.Umask
	for _, e := range g.env {
		g.plan.Env = append(g.plan.Env, control.Text(e))
	}
	return nil
}

func readMounts() ([]mountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMountinfo(f)
}

// launch starts PID 1 and follows it until it takes commands. On error
// nothing is left.
func (r *Runtime) launch(ctx context.Context, g *guest) (err error) {
	program, err := r.program()
	if err != nil {
		return err
	}
	if err := g.connect(program); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, g.kill)
	defer stop()
	if err = r.makePlan(g); err == nil { // while PID 1 starts
		err = g.follow()
	}
	if err == nil {
		g.warnings, err = g.host.Hello(ctx)
	}
	if err == nil {
		return nil
	}
	g.kill()
	<-g.done
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w; %w", err, g.Err())
}

// connect starts PID 1 with the other ends of our two sockets. Ours alone
// are left open, so that its end is seen.
func (g *guest) connect(program *os.File) error {
	setup, setupIn, err := control.SocketPair()
	if err != nil {
		return err
	}
	defer setupIn.Close()
	ctl, ctlIn, err := control.SocketPair()
	if err != nil {
		return errors.Join(err, setup.Close())
	}
	defer ctlIn.Close()
	conn, err := control.NewFDConn(ctl)
	if err == nil {
		g.setup, err = control.NewFDConn(setup)
	}
	if err != nil {
		return errors.Join(err, setup.Close(), ctl.Close())
	}
	g.host = control.NewHost(conn, func(err error) { g.log.Warn("message from the guest", "err", err) })
	if err := g.spawn(program, setupIn, ctlIn); err != nil {
		return errors.Join(err, setup.Close(), g.host.Close())
	}
	return nil
}

// spawn starts PID 1 on a thread that lives as long as it: it is told of the death of the thread that made it, not of the process.
func (g *guest) spawn(program, setup, ctl *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer errW.Close()
	attr := &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1", "GOGC=off"}, // for the moment until the shim
		Files: []uintptr{null.Fd(), null.Fd(), errW.Fd(), ctl.Fd(), setup.Fd()},
		Sys:   firstAttr(),
	}
	path := "/proc/self/exe"
	if program != nil {
		attr.Files = append(attr.Files, program.Fd())
		path = fmt.Sprintf("/proc/self/fd/%d", control.FDProgram)
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		// os.StartProcess would fork once more, to try what the kernel can do.
		pid, err := syscall.ForkExec(path, []string{control.GuestProgram, control.StageBuild}, attr)
		g.pid, g.children = pid, newChildren(pid)
		started <- err
		if err == nil {
			g.await()
		}
	}()
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("creating the namespaces: %w", err), errR.Close())
	}
	runtime.KeepAlive(program)
	go func() {
		defer errR.Close()
		_, _ = io.Copy(&g.stderr, errR)
	}()
	return nil
}

// firstAttr are the namespaces and the user of a jail's first process. The ids
// are mapped to themselves. Root maps all of them and stays root until the view
// is made (/dev/fuse may be his alone); another user has no choice.
func firstAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
			unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
		Setsid:    true,
		Pdeathsig: syscall.SIGKILL,
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1<<32 - 1}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = all, all, true
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	return attr
}

// follow sends the plan and handles the reports until the view is made.
func (g *guest) follow() error {
	p, err := json.Marshal(g.plan)
	if err != nil {
		return err
	}
	if _, err := g.setup.Write(append(p, '\n')); err != nil {
		return err
	}
	in := json.NewDecoder(g.setup)
	for {
		var r control.Report
		if err := in.Decode(&r); err != nil {
			return fmt.Errorf("the first process ended: %w", err)
		}
		switch {
		case r.Error != "":
			return errors.New(r.Error)
		case r.Ready:
			return nil
		case r.Share != nil:
			if err := g.serve(*r.Share); err != nil {
				return err
			}
		}
	}
}

// serve gives a mounted /dev/fuse to the bridge.
func (g *guest) serve(i int) error {
	files, ok := g.setup.TakeFDs(1)
	if !ok || i < 0 || i >= len(g.cfg.Shares) {
		return fmt.Errorf("PID 1 mounted share %d without a descriptor", i)
	}
	s := g.cfg.Shares[i]
	t := hypervisor.Transport{Kind: hypervisor.TransportFUSE, File: files[0], UID: uint32(g.user.uid), GID: uint32(g.user.gid), HostPID: g.hostPID, Hide: g.refuse[i]}
	if err := s.Serve(t); err != nil {
		return fmt.Errorf("serving %s: %w", s.HostPath, err)
	}
	p, err := json.Marshal(control.ServedMessage{Served: i})
	if err != nil {
		return err
	}
	_, _ = g.setup.Write(append(p, '\n')) // it need not wait for this, and may be past it
	return nil
}
