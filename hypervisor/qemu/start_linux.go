package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/cable"
)

// Runtime starts virtual machines. It is safe for concurrent use.
type Runtime struct {
	o      Options
	log    *slog.Logger
	probed probed
}

var _ hypervisor.Runtime = (*Runtime)(nil)

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
		cpus: r.processors(host.accel), accel: host.accel, done: make(chan struct{}),
	}
	g.flood.log = g.log
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

// user is who commands are inside.
type user struct{ uid, gid int }

// workload is the user's own numbers, or, for root, those of who called sudo,
// else [AnonymousUID]; the bridge maps them.
func workload(cfg hypervisor.Config) (user, error) {
	u := user{os.Getuid(), os.Getgid()}
	if u.uid != 0 {
		if cfg.UID > 0 && cfg.UID != u.uid || cfg.GID > 0 && cfg.GID != u.gid {
			return u, fmt.Errorf("qemu: only root can run commands as another user (uid %d)", cfg.UID)
		}
		if u.gid == 0 {
			u.gid = u.uid // nobody inside is in root's group
		}
		return u, nil
	}
	u = user{AnonymousUID, AnonymousUID}
	if id, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil && id > 0 {
		u = user{id, id}
		if id, err := strconv.Atoi(os.Getenv("SUDO_GID")); err == nil && id > 0 {
			u.gid = id
		}
	}
	if cfg.UID > 0 {
		u = user{cfg.UID, cfg.UID}
	}
	if cfg.GID > 0 {
		u.gid = cfg.GID
	}
	return u, nil
}

// files collects what QEMU inherits: numbers from 3 on.
type files struct {
	inherit []*os.File // ours until the start, then closed
	keep    []io.Closer
}

// add gives QEMU a file and returns its number there.
func (f *files) add(file *os.File) int {
	f.inherit = append(f.inherit, file)
	return 2 + len(f.inherit)
}

// pair makes a connection: QEMU's end by option, ours as a file.
func (f *files) pair() (end string, ours *os.File, err error) {
	ours, theirs, err := control.SocketPair()
	if err != nil {
		return "", nil, err
	}
	f.keep = append(f.keep, ours)
	return fmt.Sprintf("fd=%d", f.add(theirs)), ours, nil
}

// drop closes QEMU's ends, and with ours set the others too.
func (f *files) drop(ours bool) {
	for _, x := range f.inherit {
		_ = x.Close()
	}
	if ours {
		for _, x := range f.keep {
			_ = x.Close()
		}
	}
}

// launch starts QEMU and follows it until the guest takes commands. On error
// nothing is left.
func (g *guest) launch(ctx context.Context, host host) (err error) {
	var f files
	started := false
	defer func() {
		if !started {
			f.drop(true)
		}
	}()
	m := machine{
		os: runtime.GOOS, arch: g.o.Arch, accel: host.accel, seccomp: host.seccomp, name: "sandbox-" + g.cfg.SessionID,
		memoryMiB: g.o.MemoryBytes >> 20, cpus: g.cpus, extra: g.o.Append,
	}
	if err := g.image(ctx, &m, &f); err != nil {
		return err
	}
	var console, channel *os.File
	if m.console, console, err = f.pair(); err != nil {
		return err
	}
	if m.control, channel, err = f.pair(); err != nil {
		return err
	}
	folders, err := g.folders(&m, &f)
	if err != nil {
		return err
	}
	cable, err := g.plug(&m, &f)
	if err != nil {
		return err
	}
	door, err := newDoor()
	if err != nil {
		return err
	}
	defer door.close()
	m.monitor = fmt.Sprintf("fd=%d", f.add(door.listener))
	g.said.Add(1)
	go g.readConsole(console) // to the end of QEMU, or of its ends if it does not start
	g.serveNetwork(cable)
	if err := g.spawn(host.program, m.args(), f.inherit); err != nil {
		return err
	}
	started = true
	f.drop(false) // so that its end is seen
	stop := context.AfterFunc(ctx, g.kill)
	defer stop()
	if err := g.connect(ctx, door, channel, folders); err != nil {
		g.giveUp(err)
		<-g.done
		return g.Err()
	}
	return nil
}

// folders makes the connections of the working folders: one for each, or the
// cable.
func (g *guest) folders(m *machine, f *files) (ours []*os.File, err error) {
	if g.o.NineP {
		var end *os.File
		m.cable, end, err = f.pair()
		return []*os.File{end}, err
	}
	for i := range g.cfg.Shares {
		end, file, err := f.pair()
		if err != nil {
			return nil, err
		}
		m.shares, ours = append(m.shares, shareDevice{tag: tag(i), end: end}), append(ours, file)
	}
	return ours, nil
}

// giveUp ends a machine that does not come up, unless it has ended by itself: a
// broken connection is what is seen of that first.
func (g *guest) giveUp(err error) {
	if errors.Is(err, control.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		select {
		case <-g.done:
			return
		case <-time.After(ownEnd):
		}
	}
	g.end(err)
}

// tag is the name of a folder's device.
func tag(i int) string { return "working" + strconv.Itoa(i) }

// image opens the kernel and the initramfs for QEMU.
func (g *guest) image(ctx context.Context, m *machine, f *files) error {
	img, err := g.o.Image(ctx)
	if err != nil {
		return err
	}
	g.kernel = img.Version
	if img.RootFS != nil {
		m.rootfs, g.rootfs = f.add(img.RootFS), true
	}
	for _, p := range []struct {
		file *os.File
		path *string
	}{{img.Kernel, &m.kernel}, {img.Initrd, &m.initrd}} {
		file, err := readable(p.file)
		if err != nil {
			return err
		}
		*p.path = fmt.Sprintf("/proc/self/fd/%d", f.add(file))
	}
	if g.o.Disk.Path == "" {
		return nil
	}
	disk, err := g.o.Disk.Open(ctx)
	if err == nil {
		m.disk = f.add(disk)
	}
	return err
}

// readable returns a file that QEMU's user can open again: the same, or, if only
// root may read it (/boot on some distributions), a copy.
func readable(f *os.File) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 || st.Mode&0o004 != 0 {
		return f, nil
	}
	defer f.Close()
	fd, err := unix.MemfdCreate(filepath.Base(f.Name()), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := os.NewFile(uintptr(fd), f.Name())
	if _, err := io.Copy(m, f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// spawn starts QEMU on a thread that lives as long as it: it is told of the
// death of the thread that made it, not of the process.
func (g *guest) spawn(program string, args []string, inherit []*os.File) error {
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
		Dir: "/", Env: []string{"PATH=" + guestPath, "LC_ALL=C"}, Files: []uintptr{null.Fd(), errW.Fd(), errW.Fd()},
		Sys: emulatorAttr(),
	}
	for _, f := range inherit {
		attr.Files = append(attr.Files, f.Fd())
	}
	g.said.Add(1) // before anybody can wait for it: QEMU may end at once
	began := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		pid, err := syscall.ForkExec(program, append([]string{program}, args...), attr)
		g.pid = pid
		began <- err
		if err == nil {
			g.await()
		}
	}()
	err = <-began
	runtime.KeepAlive(inherit)
	if err != nil {
		g.said.Done()
		return errors.Join(fmt.Errorf("starting %s: %w", program, err), errR.Close())
	}
	go func() {
		defer g.said.Done()
		defer errR.Close()
		_, _ = io.Copy(&g.stderr, errR)
	}()
	return nil
}

// emulatorAttr makes QEMU die with us, and root's QEMU nobody in particular:
// with the groups of /dev/kvm, and no others.
func emulatorAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: EmulatorUID, Gid: EmulatorUID}
		var st unix.Stat_t
		if unix.Stat("/dev/kvm", &st) == nil && st.Gid != 0 {
			attr.Credential.Groups = []uint32{st.Gid}
		}
	}
	return attr
}

// connect serves the folders, greets the monitor, and tells the guest what it is
// to be.
func (g *guest) connect(ctx context.Context, d *door, channel *os.File, folders []*os.File) error {
	if err := g.serve(folders); err != nil {
		_ = channel.Close()
		return err
	}
	conn, err := net.FileConn(channel)
	_ = channel.Close()
	if err != nil {
		return err
	}
	monitor := make(chan error, 1)
	go func() { monitor <- g.greet(ctx, d) }()
	err = g.plan().Send(conn)
	if err != nil {
		_ = conn.Close()
	} else {
		g.setHost(control.NewHost(conn, g.problem))
		g.warnings, err = g.host.Hello(ctx)
	}
	if err != nil {
		g.giveUp(err) // or the monitor might not answer
	}
	if err := errors.Join(err, <-monitor); err != nil {
		return err
	}
	go g.follow()
	return nil
}

// serve starts the bridges of the folders. It takes over the files.
func (g *guest) serve(folders []*os.File) error {
	var over *cable.Cable
	if g.o.NineP {
		conn, err := net.FileConn(folders[0])
		if err := errors.Join(err, folders[0].Close()); err != nil {
			return err
		}
		if over, err = cable.New(conn, len(g.cfg.Shares), g.log); err != nil { // ends with QEMU
			return err
		}
	}
	for i, s := range g.cfg.Shares {
		t := hypervisor.Transport{
			Kind: hypervisor.TransportVhost, UID: uint32(g.user.uid), GID: uint32(g.user.gid), Hide: g.refuse[i],
			Drop: g.DropCaches, Sync: g.sync,
		}
		if over != nil {
			t.Kind, t.Stream = hypervisor.TransportP9, over.Stream(i)
		} else {
			t.File = folders[i]
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

// greet connects to the monitor.
func (g *guest) greet(ctx context.Context, d *door) error {
	m, err := d.dial()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = m.Disconnect() })
	defer stop()
	q, err := attach(m)
	if err != nil {
		_ = m.Disconnect()
		return err
	}
	g.mu.Lock()
	g.monitor = q
	g.mu.Unlock()
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

// door is where the monitor listens until we have connected: the library takes
// an address, so there has to be one.
type door struct {
	dir      string
	at       *os.File // the directory
	listener *os.File
}

func newDoor() (d *door, err error) {
	d = &door{}
	if d.dir, err = os.MkdirTemp("", "sandbox-qmp-"); err != nil { // 0700
		return nil, err
	}
	if d.at, err = os.Open(d.dir); err != nil {
		return nil, errors.Join(err, os.Remove(d.dir))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.path(), Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		d.listener, err = l.File()
		_ = l.Close()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// path is short, however long the directory's is: a socket's has 107 bytes.
func (d *door) path() string { return fmt.Sprintf("/proc/self/fd/%d/m", d.at.Fd()) }

func (d *door) dial() (*qmp.SocketMonitor, error) {
	const instantly = 10 * time.Second // it listens already
	return qmp.NewSocketMonitor("unix", d.path(), instantly)
}

func (d *door) close() {
	_ = os.Remove(filepath.Join(d.dir, "m"))
	_ = os.Remove(d.dir)
	_ = d.at.Close()
}

// exitText says how a process ended.
func exitText(status syscall.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// lastLines returns the last n lines with something on them.
func lastLines(text string, n int) []string {
	var lines []string
	for _, l := range slices.Backward(splitLines(text)) {
		if lines = append(lines, l); len(lines) == n {
			break
		}
	}
	slices.Reverse(lines)
	return lines
}
