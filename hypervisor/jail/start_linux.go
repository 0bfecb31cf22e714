package jail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
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
	r := &Runtime{o: o, log: log.With("component", "jail")}
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
	u, err := workload(cfg)
	if err != nil {
		return nil, err
	}
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	plan, err := makePlan(cfg, u, mounts)
	if err != nil {
		return nil, err
	}
	plan.Umask = r.o.Umask
	g := &guest{log: r.log, user: u, cfg: cfg, env: defaultEnv(u), plan: plan, done: make(chan struct{}), began: time.Now()}
	for _, e := range g.env {
		g.plan.Env = append(g.plan.Env, control.Text(e))
	}
	if err := r.launch(ctx, g); err != nil {
		return nil, explain(fmt.Errorf("jail: %w", err))
	}
	return g, nil
}

func readMounts() ([]mountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMountinfo(f)
}

// launch starts the builder and follows it until PID 1 takes commands. On error
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
	if err = g.follow(); err == nil {
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
	if text := g.stderr.String(); text != "" {
		err = fmt.Errorf("%w (%s)", err, strings.TrimSpace(text))
	}
	return err
}

// connect starts the builder with the other ends of our two sockets. Ours alone
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

// spawn starts the builder on a thread that lives as long as it: the builder is
// told of the death of the thread that made it, not of the process.
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
	attr := &os.ProcAttr{
		Env:   []string{},
		Files: []*os.File{null, null, errW, setup, ctl},
		Sys:   builderAttr(),
	}
	path := "/proc/self/exe"
	if program != nil {
		attr.Files = append(attr.Files, program)
		path = fmt.Sprintf("/proc/self/fd/%d", control.FDProgram)
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		proc, err := os.StartProcess(path, []string{control.GuestProgram, control.StageBuild}, attr)
		g.builder = proc
		started <- err
		if err == nil {
			state, err := proc.Wait()
			g.ended(state, err)
		}
	}()
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("starting the builder: %w", err), errR.Close())
	}
	go func() {
		defer errR.Close()
		_, _ = io.Copy(&g.stderr, errR)
	}()
	return nil
}

func builderAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true, Pdeathsig: syscall.SIGKILL}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0} // and no further groups
		return attr
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID}
	return attr
}

// follow sends the plan and handles the builder's reports until it is ready.
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
			return fmt.Errorf("the builder ended: %w", err)
		}
		switch {
		case r.Error != "":
			return errors.New(r.Error)
		case r.Ready:
			// From now on its end can be waited for, whoever its parent is then.
			pidfd, err := unix.PidfdOpen(r.PID, 0)
			if err != nil {
				return os.NewSyscallError("pidfd_open", err)
			}
			g.mu.Lock()
			g.pid, g.pidfd = r.PID, pidfd
			g.mu.Unlock()
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
		return fmt.Errorf("the builder mounted share %d without a descriptor", i)
	}
	s := g.cfg.Shares[i]
	t := hypervisor.Transport{Kind: hypervisor.TransportFUSE, File: files[0], UID: uint32(g.user.uid), GID: uint32(g.user.gid)}
	if err := s.Serve(t); err != nil {
		return fmt.Errorf("serving %s: %w", s.HostPath, err)
	}
	p, err := json.Marshal(control.ServedMessage{Served: i})
	if err != nil {
		return err
	}
	_, err = g.setup.Write(append(p, '\n'))
	return err
}

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailBytes; n > 0 {
		t.buf = bytes.Clone(t.buf[n:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
