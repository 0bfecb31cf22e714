package none

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Options configure the runtime.
type Options struct {
	// Dir is where mount points are made, mode 0700.
	Dir string
	// Umask is what commands start with; this process's own may be another.
	Umask int
	// Logger may be nil.
	Logger *slog.Logger
}

// Runtime implements [hypervisor.Runtime]. It is safe for concurrent use.
type Runtime struct{ o Options }

var (
	_ hypervisor.Runtime = (*Runtime)(nil)
	_ hypervisor.Guest   = (*guest)(nil)
)

// New returns the runtime; nothing is touched before Start.
func New(o Options) *Runtime {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Runtime{o: o}
}

// Name returns "none".
func (r *Runtime) Name() string { return "none" }

// Probe tells whether a bridge can be mounted.
func (r *Runtime) Probe(context.Context) error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("%w: /dev/fuse is missing; load the fuse kernel module (modprobe fuse): %w", hypervisor.ErrUnavailable, err)
	}
	if os.Geteuid() == 0 {
		return nil
	}
	if err := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); err != nil {
		return fmt.Errorf("%w: this user may not open /dev/fuse (sudo chmod 0666 /dev/fuse, as distributions have it): %w", hypervisor.ErrUnavailable, err)
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return fmt.Errorf("%w: mounting as an ordinary user needs fusermount3; install the package fuse3", hypervisor.ErrUnavailable)
	}
	return nil
}

// Start mounts the shares and returns a guest that runs commands in them.
func (r *Runtime) Start(ctx context.Context, cfg hypervisor.Config) (hypervisor.Guest, error) {
	if cfg.Network != nil {
		return nil, hypervisor.ErrNetwork
	}
	if err := r.Probe(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for mount points: %w", err)
	}
	removeStale(r.o.Dir)
	base, err := os.MkdirTemp(r.o.Dir, "mnt-"+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, fmt.Errorf("make the directory for mount points: %w", err)
	}
	g := &guest{base: base, umask: r.o.Umask, log: r.o.Logger, done: make(chan struct{}), running: map[*process]struct{}{}}
	for i, s := range cfg.Shares {
		if err := g.mount(i, s); err != nil {
			return nil, errors.Join(fmt.Errorf("mount the bridge of %s: %w", s.HostPath, err), g.Stop(ctx))
		}
	}
	return g, nil
}

// removeStale unmounts what a dead supervisor left behind. Names carry the
// owner's pid.
func removeStale(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, ok := ownerOf(e.Name())
		if !ok || syscall.Kill(pid, 0) == nil {
			continue
		}
		removeBase(filepath.Join(dir, e.Name()))
	}
}

func ownerOf(name string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, "mnt-")
	if !ok {
		return 0, false
	}
	num, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(num)
	return pid, err == nil && pid > 0
}

func removeBase(base string) {
	points, _ := os.ReadDir(base) // never below the mount points themselves
	for _, p := range points {
		point := filepath.Join(base, p.Name())
		Unmount(point)
		_ = os.Remove(point)
	}
	_ = os.Remove(base)
}

type mountPoint struct{ share hypervisor.Share }

type guest struct {
	base  string
	umask int
	log   *slog.Logger

	mu      sync.Mutex
	mounts  []mountPoint
	running map[*process]struct{}
	stopped bool
	done    chan struct{}
}

func (g *guest) point(i int) string { return filepath.Join(g.base, strconv.Itoa(i)) }

func (g *guest) mount(i int, s hypervisor.Share) error {
	point := g.point(i)
	if err := os.Mkdir(point, 0o700); err != nil {
		return err
	}
	f, err := Mount(point, s.ReadOnly)
	if err != nil {
		return err
	}
	g.mounts = append(g.mounts, mountPoint{share: s})
	return s.Serve(hypervisor.Transport{
		Kind: hypervisor.TransportFUSE, File: f,
		UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
	})
}

// translate maps a path in a working folder to the same place on its bridge.
// The deepest folder wins; other paths stay as they are.
func (g *guest) translate(path string) string {
	best, out := -1, path
	for i, m := range g.mounts {
		rel, in := lexical.Rel(m.share.HostPath, path)
		if !in || len(m.share.HostPath) <= best {
			continue
		}
		best, out = len(m.share.HostPath), filepath.Join(g.point(i), rel)
	}
	return out
}

func (g *guest) Facts() map[string]string {
	f := map[string]string{"isolation": "none", "network": "the host's", "pid": strconv.Itoa(os.Getpid())}
	for i, m := range g.mounts {
		f["mount:"+m.share.HostPath] = g.point(i)
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	return f
}

// First implements [hypervisor.Housed]. A process whose parent has ended is not below it any more: nothing isolates it.
func (g *guest) First() int { return os.Getpid() }

func (g *guest) RollbackNotify(int64) error { return nil }
func (g *guest) Done() <-chan struct{}      { return g.done }
func (g *guest) Err() error                 { return nil }

// Stop ends the commands and unmounts. Processes that left their command's
// session are not found: nothing isolates them.
func (g *guest) Stop(ctx context.Context) error {
	g.mu.Lock()
	if g.stopped {
		g.mu.Unlock()
		return nil
	}
	g.stopped = true
	procs := make([]*process, 0, len(g.running))
	for p := range g.running {
		procs = append(procs, p)
	}
	g.mu.Unlock()
	for _, p := range procs {
		_ = p.Cancel(time.Second)
	}
	for _, p := range procs {
		_, _ = p.Wait(ctx)
	}
	removeBase(g.base)
	close(g.done)
	return nil
}

// Unmount takes away what [Mount] mounted. Who uses it keeps it until they end.
func Unmount(point string) {
	if unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil || os.Geteuid() == 0 {
		return
	}
	_ = exec.Command("fusermount3", "-u", "-z", "-q", "--", point).Run()
}

// Mount mounts a FUSE file system at point and returns the connection: as root by
// itself, else by the setuid helper of libfuse.
func Mount(point string, readOnly bool) (*os.File, error) {
	if os.Geteuid() != 0 {
		return fusermount(point, readOnly)
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", fd)
	if err := unix.Mount("sandbox", point, "fuse", flags, opts); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("mount: %w", err)
	}
	return os.NewFile(uintptr(fd), "/dev/fuse"), nil
}

// fusermount asks the setuid helper of libfuse, which sends the connection
// over the socket named by _FUSE_COMMFD (fusermount3(1)).
func fusermount(point string, readOnly bool) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "commfd")
	defer unix.Close(ours)
	opts := "fsname=sandbox,nosuid,nodev,default_permissions"
	if readOnly {
		opts += ",ro"
	}
	cmd := exec.Command("fusermount3", "-o", opts, "--", point)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := cmd.CombinedOutput()
	_ = theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("fusermount3: %w: %s", err, strings.TrimSpace(string(out)))
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(ours, make([]byte, 4), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fusermount3 sent no connection: %w", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return nil, fmt.Errorf("fusermount3 sent no connection: %w", errors.Join(err, syscall.EBADMSG))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("fusermount3 sent no connection: %w", errors.Join(err, syscall.EBADMSG))
	}
	return os.NewFile(uintptr(fds[0]), "/dev/fuse"), nil
}
