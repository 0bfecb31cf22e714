package wine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/junction"
	"github.com/codeagent/sandbox/tests/kit/wine/outside"
)

// nobody is who runs programs.
const nobody = 65534

// junctions is a folder of each machine, with a junction in it that leads out of it. Wine makes none; but it takes for one what is mounted in Linux.
const junctions = "/junctions"

// Options of a machine.
type Options struct {
	// Visible are directories and files of the host that can be read in the machine, by the same paths. Wine's own
	// directories cannot be among them: /, /tmp, /usr.
	Visible []string
	// Writable are those that can be changed, by whom their modes let: a program is nobody.
	Writable []string
	// Dir is where the machine's own directory is made: the system's directory for temporary files, if it is empty.
	Dir string

	cold bool // no program runs yet
}

// A Machine is where Windows programs run.
type Machine struct {
	dir   string // mounts, and the prefix
	first *exec.Cmd
	stdin io.Closer    // of the program that stays
	end   func() error // kills all processes and waits for that, once

	mu      sync.Mutex
	started []*Cmd
	servers []*outside.Server
}

// Start makes a machine. Close ends it.
func (b *Bed) Start(o Options) (_ *Machine, err error) {
	dir, err := os.MkdirTemp(o.Dir, "wine-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	m := &Machine{dir: dir}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(b.dir, sample), m.prefix()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy of the prefix: %w: %s", err, out)
	}
	started := make(chan error)
	go func() {
		// The thread gets a mount namespace of its own, which process 1 inherits. It is never unlocked: it ends with this goroutine.
		runtime.LockOSThread()
		started <- m.begin(b, o)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if o.cold {
		return m, nil
	}
	if err := m.warm(); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// warm starts a program that stays. Windows' services begin with the first program, inherit what it has open, and end some time
// after the last. So without this one, whoever reads what a program prints would wait for them.
func (m *Machine) warm() error {
	cmd := m.Command(context.Background(), "cmd", "/d", "/c", "echo ready& pause")
	stdin, err := cmd.StdinPipe() // stays open
	if err != nil {
		return err
	}
	m.stdin = stdin
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return err
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		_ = m.end()
		return fmt.Errorf("wine does not start: %q, %s", line, complaint.String())
	}
	return nil
}

// prefix is the machine's Windows directory and registry.
func (m *Machine) prefix() string { return filepath.Join(m.dir, "prefix") }

// root is the machine's root directory, seen only in its namespace.
func (m *Machine) root() string { return filepath.Join(m.dir, "root") }

// begin mounts what the machine sees and starts process 1.
func (m *Machine) begin(b *Bed, o Options) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := m.mount(b, o); err != nil {
		return err
	}
	// Whoever loses its parent gets process 1 for one, which does not wait for it: so nobody has to.
	m.first = exec.Command("sh", "-c", `mount -t proc proc "$0" && trap '' CHLD && echo ready && exec cat`, filepath.Join(m.root(), "proc"))
	m.first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	stdin, err := m.first.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := m.first.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	m.first.Stderr = &complaint
	if err := m.first.Start(); err != nil {
		return fmt.Errorf("process namespace: %w", err)
	}
	m.end = sync.OnceValue(func() error {
		err := errors.Join(stdin.Close(), m.first.Process.Kill())
		// Process 1 is there until somebody has waited for each other process. For those that it did not start nobody else can.
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range m.started {
			_ = c.Wait()
		}
		_ = m.first.Wait() // says that it was killed
		return err
	})
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		return errors.Join(m.end(), errors.New("process 1 of wine's namespace: "+complaint.String()))
	}
	return nil
}

// mount builds the machine's root directory in this thread's mount namespace.
func (m *Machine) mount(b *Bed, o Options) error {
	root := m.root()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID, "mode=755,size=16m"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, dir := range []string{"tmp", "dev", "proc", "etc/fonts"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o1777); err != nil {
		return err
	}
	if err := mountAway(filepath.Join(root, junctions)); err != nil {
		return err
	}
	fonts := []byte("<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig><cachedir>/tmp/fonts</cachedir></fontconfig>\n") // without it there is a complaint on standard error
	if err := os.WriteFile(filepath.Join(root, "etc/fonts/fonts.conf"), fonts, 0o644); err != nil {
		return err
	}
	err := errors.Join(os.Symlink("usr/lib", filepath.Join(root, "lib")), os.Symlink("usr/lib64", filepath.Join(root, "lib64")))
	err = errors.Join(err, m.bind(filepath.Join(b.dir, "usr"), "/usr", unix.MS_RDONLY))
	for _, dev := range []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/etc/hosts"} {
		err = errors.Join(err, m.bind(dev, dev, 0))
	}
	all := append(slices.Concat(o.Visible, o.Writable), m.prefix())
	slices.Sort(all) // a directory before what is in it, which would be hidden otherwise
	for _, dir := range slices.Compact(all) {
		if slices.Contains([]string{"/", "/tmp", "/usr", "/proc", "/dev", "/etc"}, dir) {
			return fmt.Errorf("the machine has a %s of its own", dir)
		}
		flags := uintptr(unix.MS_RDONLY)
		if dir == m.prefix() || slices.Contains(o.Writable, dir) {
			flags = 0
		}
		err = errors.Join(err, m.bind(dir, dir, flags))
	}
	return err
}

// mountAway makes a folder that anybody may change, with a mount in it.
func mountAway(folder string) error {
	away := filepath.Join(folder, junction.Name)
	err := errors.Join(os.MkdirAll(away, 0o755), os.Chmod(folder, 0o777))
	if err == nil {
		err = unix.Mount("tmpfs", away, "tmpfs", unix.MS_NOSUID, "mode=777,size=1m")
	}
	if err != nil {
		return fmt.Errorf("the folder with a junction: %w", err)
	}
	return nil
}

// bind makes what is at from on the host appear in the machine at to.
func (m *Machine) bind(from, to string, flags uintptr) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	target := filepath.Join(m.root(), to)
	if _, err := os.Lstat(target); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if st.IsDir() {
			err = os.Mkdir(target, 0o755)
		} else {
			err = os.WriteFile(target, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	if flags != 0 {
		if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|flags, ""); err != nil {
			return fmt.Errorf("remount %s: %w", from, err)
		}
	}
	return nil
}

// A Cmd is a program that the machine runs: exec.Cmd, whose Start and Run enter the machine.
type Cmd struct {
	*exec.Cmd
	m    *Machine
	wait func() error
}

// Command returns the command that runs a program of Windows: a path of the host, or the name of one of Windows' own programs.
// Its directory is drive C:'s root as long as Dir is not set. Its environment is what WINE needs and what the caller adds to Env.
func (m *Machine) Command(ctx context.Context, program string, args ...string) *Cmd {
	return m.command(ctx, append([]string{loader, program}, args...)...)
}

func (m *Machine) command(ctx context.Context, line ...string) *Cmd {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = filepath.Join(m.prefix(), "drive_c")
	cmd.Env = []string{
		"HOME=/", "USER=sandbox", "LC_ALL=C.UTF-8", // or there are no names of files beyond ASCII
		"PATH=/usr/lib/wine", "WINEPREFIX=" + m.prefix(), "WINESERVER=" + server, "WINEDEBUG=-all",
		junction.Variable + `=Z:` + strings.ReplaceAll(junctions, "/", `\`),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     m.root(),
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}},
	}
	return &Cmd{cmd, m, sync.OnceValue(cmd.Wait)}
}

// Start starts the program in the machine.
func (c *Cmd) Start() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends in the machine's namespaces
		err := c.m.enter()
		if err == nil {
			err = c.Cmd.Start()
		}
		started <- err
	}()
	err := <-started
	if err == nil {
		c.m.started = append(c.m.started, c)
	}
	return err
}

// Wait waits for the program's end, as Close does for those that nobody waits for.
func (c *Cmd) Wait() error { return c.wait() }

// Run starts the program and waits for its end.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the program and returns what it prints to standard output.
func (c *Cmd) Output() ([]byte, error) {
	var out strings.Builder
	c.Stdout = &out
	err := c.Run()
	return []byte(out.String()), err
}

// CombinedOutput runs the program and returns all that it prints.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return []byte(out.String()), err
}

// enter moves this thread's mounts, and the processes that it starts, into the machine.
func (m *Machine) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for file, kind := range map[string]int{"mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID} {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", m.first.Process.Pid, file))
		if err != nil {
			return fmt.Errorf("the machine has ended: %w", err)
		}
		err = unix.Setns(int(ns.Fd()), kind)
		_ = ns.Close()
		if err != nil {
			return fmt.Errorf("setns %s: %w", file, err)
		}
	}
	return nil
}

// run runs one of Linux's programs in the machine.
func (m *Machine) run(ctx context.Context, line ...string) error {
	cmd := m.command(ctx, line...)
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, out)
	}
	return nil
}

// Close ends all that runs in the machine, and for it outside, and removes its directory.
func (m *Machine) Close() error {
	err := m.end()
	for _, s := range m.servers {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, os.RemoveAll(m.dir))
}
