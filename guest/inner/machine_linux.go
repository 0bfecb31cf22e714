//go:build amd64 || arm64

package inner

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/shim"
)

// Lists of modules, written by guest/image: those that every machine loads, and
// those for what it may have.
const (
	moduleList        = "/lib/modules/list"
	networkModuleList = "/lib/modules/list-network"
	ninePModuleList   = "/lib/modules/list-9p"
	diskModuleList    = "/lib/modules/list-disks"
)

// devicePatience bounds how long a device may take to appear.
const devicePatience = 30 * time.Second

// isMachineInit reports whether the kernel of a virtual machine has started us.
func isMachineInit(args []string) bool {
	return os.Getpid() == 1 && len(args) > 0 && filepath.Base(args[0]) == "init"
}

// machine is init of a virtual machine: it mounts what the host's plan names,
// runs the shim until the host says shutdown, and switches the machine off. The
// commands are an ordinary user's, who can reach neither the port (0600, root)
// nor us.
func machine() error {
	err := serveMachine()
	if err != nil {
		fmt.Fprintln(os.Stderr, control.GuestProgram+":", err)
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

func serveMachine() error {
	unix.Umask(0o022)
	if err := mountSystem(); err != nil {
		return err
	}
	warnings, err := loadModules(moduleList)
	if err != nil {
		return err
	}
	port, err := controlPort()
	if err != nil {
		return err
	}
	plan, err := control.ReadMachinePlan(port)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	more, err := loadFor(plan)
	if err == nil {
		err = setUpMachine(plan)
	}
	if err != nil {
		// So that people see it without reading the console.
		return errors.Join(err, control.NewLink(port).Send(&control.Message{Type: control.TypeError, Error: err.Error()}))
	}
	unix.Umask(plan.Umask)
	env := make([]string, len(plan.Env))
	for i, e := range plan.Env {
		env[i] = string(e)
	}
	return shim.Serve(port, shim.Options{
		Init: true, Env: env, NotifyDir: notifyDir, Warnings: append(warnings, more...),
		Credential: &syscall.Credential{Uid: uint32(plan.UID), Gid: uint32(plan.GID)},
		Invalidate: func() error { return dropCaches(plan.Shares) },
		SetClock:   setClock,
		Sync:       func() error { return syncShares(plan.Shares) },
	})
}

// mountSystem mounts what every Linux has.
func mountSystem() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		kind, path, data string
		flags            uintptr
	}{
		{"devtmpfs", "/dev", "mode=755", unix.MS_NOSUID},
		{"proc", "/proc", "", safe | unix.MS_NOEXEC},
		{"sysfs", "/sys", "", safe | unix.MS_NOEXEC},
		{"tmpfs", "/run", "mode=755", safe},
		{"tmpfs", "/tmp", "mode=1777", safe},
		{"devpts", "/dev/pts", "mode=620,ptmxmode=666", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/dev/shm", "mode=1777", safe},
	} {
		if err := os.MkdirAll(m.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.path, m.kind, m.flags, m.data); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mounting %s: %w", m.path, err)
		}
	}
	for link, to := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2", "/dev/ptmx": "pts/ptmx"} {
		_ = os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	return os.MkdirAll(notifyDir, 0o755)
}

// loadModules loads the modules of one of the image's lists in their order. One
// that the hardware does not ask for is no error, a missing port or file system
// will be.
func loadModules(list string) (warnings []string, err error) {
	f, err := os.Open(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel with everything built in
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m, err := os.Open(lines.Text())
		if err != nil {
			return nil, err
		}
		if err := unix.FinitModule(int(m.Fd()), "", 0); err != nil && err != unix.EEXIST && err != unix.ENODEV {
			warnings = append(warnings, fmt.Sprintf("module %s: %v", filepath.Base(lines.Text()), err))
		}
		_ = m.Close()
	}
	return warnings, nil
}

// loadFor loads the modules for what the plan says that there is. It comes before
// another root, which has none.
func loadFor(p control.MachinePlan) (warnings []string, err error) {
	ninep := slices.ContainsFunc(p.Shares, func(s control.MachineShare) bool { return s.NineP })
	for _, l := range []struct {
		list   string
		wanted bool
	}{
		{networkModuleList, p.Network != nil || ninep}, // 9P comes through a cable
		{ninePModuleList, ninep},
		{diskModuleList, p.RootFS || p.Disk},
	} {
		if !l.wanted {
			continue
		}
		more, err := loadModules(l.list)
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, more...)
	}
	return warnings, nil
}

// await looks until there is what appears some time after its driver, and reports
// whether it did.
func await(look func() bool) bool {
	for deadline := time.Now().Add(devicePatience); !look(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// awaitNamed is await for what named finds.
func awaitNamed(glob, text string) (dir string, ok bool) {
	ok = await(func() (ok bool) { dir, ok = named(glob, text); return ok })
	return dir, ok
}

// named returns the directory of the first file like glob in /sys that says text;
// what it says does not matter if text is empty.
func named(glob, text string) (dir string, ok bool) {
	names, _ := filepath.Glob("/sys/" + glob)
	for _, n := range names {
		if text != "" {
			if got, err := os.ReadFile(n); err != nil || strings.TrimSpace(string(got)) != text {
				continue
			}
		}
		return filepath.Dir(n), true
	}
	return "", false
}

// controlPort opens the port when it is there. Only root may open it again.
func controlPort() (*os.File, error) {
	dir, ok := awaitNamed("class/virtio-ports/*/name", control.PortName)
	if !ok {
		return nil, fmt.Errorf("no virtio-serial port %q appeared", control.PortName)
	}
	dev := filepath.Join("/dev", filepath.Base(dir))
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Fchmod(fd, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dev, err)
	}
	return os.NewFile(uintptr(fd), dev), nil
}

// setUpMachine carries out the plan.
func setUpMachine(p control.MachinePlan) error {
	accounts, err := switchRoot(p)
	if err != nil {
		return err
	}
	if p.TimeNS > 0 {
		if err := setClock(time.Unix(0, p.TimeNS)); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	streams, err := plugIn(p.Shares)
	if err != nil {
		return err
	}
	if p.Network != nil {
		if err := networkUp(*p.Network); err != nil {
			return fmt.Errorf("setting up the network: %w", err)
		}
	}
	if err := writeUsers(p, accounts); err != nil {
		return err
	}
	for i, s := range p.Shares {
		if err := mountShare(s, streams[i]); err != nil {
			return err
		}
		// The place by which the specification knows it.
		alias := fmt.Sprintf("/mnt/working/%d", i)
		if alias == string(s.Path) {
			continue
		}
		if err := os.MkdirAll("/mnt/working", 0o755); err != nil {
			return err
		}
		if err := os.Symlink(string(s.Path), alias); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func setClock(now time.Time) error {
	tv := unix.NsecToTimeval(now.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("setting the clock: %w", err)
	}
	return nil
}

// mountShare mounts a folder; stream is its socket if it is behind the cable.
func mountShare(s control.MachineShare, stream int) error {
	if err := os.MkdirAll(string(s.Path), 0o755); err != nil {
		return err
	}
	if err := openWay(string(s.Path)); err != nil {
		return err
	}
	if s.NineP {
		return mount9P(s, stream, mountFlags(s))
	}
	if err := unix.Mount(s.Tag, string(s.Path), "virtiofs", mountFlags(s), ""); err != nil {
		return fmt.Errorf("mounting %s (virtiofs %s): %w", s.Path, s.Tag, err)
	}
	return nil
}

func mountFlags(s control.MachineShare) uintptr {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if s.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	return flags
}

// dropCaches forgets the names, attributes and clean pages of the working
// folders. A remount drops every name that is not in use: drop_caches alone keeps
// those that were used lately. An attribute goes with its name, since it comes
// anew with the next lookup.
func dropCaches(shares []control.MachineShare) error {
	var errs []error
	for _, s := range shares {
		if err := unix.Mount("", string(s.Path), "", unix.MS_REMOUNT|mountFlags(s), ""); err != nil {
			errs = append(errs, fmt.Errorf("remounting %s: %w", s.Path, err))
		}
	}
	return errors.Join(append(errs, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))...)
}

// syncShares writes back what is dirty on the working folders.
func syncShares(shares []control.MachineShare) error {
	var err error
	for _, s := range shares {
		fd, oerr := unix.Open(string(s.Path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if oerr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.Path, oerr))
			continue
		}
		err = errors.Join(err, unix.Syncfs(fd), unix.Close(fd))
	}
	return err
}
