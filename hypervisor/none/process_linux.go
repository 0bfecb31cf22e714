package none

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

type process struct {
	cmd      *exec.Cmd
	child    remote.Child // of cmd
	terminal *os.File
	started  time.Time
	ended    chan struct{}
	status   hypervisor.ExitStatus
}

var _ hypervisor.Process = (*process)(nil)

// Exec starts a command in its own session or process group.
func (g *guest) Exec(_ context.Context, c hypervisor.Command) (hypervisor.Process, error) {
	if len(c.Argv) == 0 {
		return nil, &hypervisor.StartError{Argv0: "", ExitCode: 127, Err: errors.New("no command given")}
	}
	if c.Own {
		return g.own(c)
	}
	cmd := &exec.Cmd{Args: c.Argv, Env: c.Env, Dir: "/"}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = g.at(cmd.Env)
	path, err := exec.LookPath(c.Argv[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return nil, startError(c.Argv[0], err)
	}
	// Our umask is zero for the bridge's sake, and no call sets a child's alone.
	// Nor may the child enter the mount, which we serve, before it is a process
	// of its own: until its exec, a thread of ours waits for it that the
	// runtime thinks is running Go code.
	cmd.Path = "/bin/sh"
	script := fmt.Sprintf(`umask %04o; cd "$1" || exit 126; shift; exec "$@"`, g.umask)
	cmd.Args = append([]string{"sh", "-c", script, "sh", g.translate(c.Dir), path}, c.Argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := hypervisor.Numbered(c.Further); err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = orNil(c.Stdin), orNil(c.Stdout), orNil(c.Stderr)
	for _, d := range c.Further {
		const first = 3
		for len(cmd.ExtraFiles) <= d.Number-first {
			cmd.ExtraFiles = append(cmd.ExtraFiles, nil)
		}
		cmd.ExtraFiles[d.Number-first] = d.File
	}

	p := &process{cmd: cmd, started: time.Now(), ended: make(chan struct{})}
	var slave *os.File
	if c.TTY != nil && !c.TTY.Partial() {
		if p.terminal, slave, err = openPTY(*c.TTY); err != nil {
			return nil, fmt.Errorf("open a terminal: %w", err)
		}
		defer slave.Close()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if c.TTY.Term != "" {
			cmd.Env = append(cmd.Env, "TERM="+c.TTY.Term)
		}
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, fmt.Errorf("the session has stopped: %w", os.ErrClosed)
	}
	begun := make(chan error, 1)
	go func() {
		// Pdeathsig is sent when the thread that started the command ends, so it must not before the command
		// does. Other goroutines end threads: those that were locked to one.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.child.PID = cmd.Process.Pid
		}
		if begun <- err; err != nil {
			return
		}
		p.reap()
		g.mu.Lock()
		delete(g.running, p)
		g.mu.Unlock()
	}()
	if err := <-begun; err != nil {
		if p.terminal != nil {
			_ = p.terminal.Close()
		}
		return nil, startError(c.Argv[0], err)
	}
	g.running[p] = struct{}{}
	return p, nil
}

// at is an environment with the home directory on its bridge if that is in a working folder, or is one: else what programs write by its name could not be undone.
func (g *guest) at(env []string) []string {
	const home = "HOME="
	for i, kv := range env {
		if dir, ok := strings.CutPrefix(kv, home); ok && filepath.IsAbs(dir) {
			env = slices.Clone(env) // it is the caller's
			env[i] = home + g.translate(filepath.Clean(dir))
		}
	}
	return env
}

// orNil avoids a typed nil, which exec would take for a file.
func orNil(f *os.File) interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
} {
	if f == nil {
		return nil
	}
	return f
}

func startError(argv0 string, err error) error {
	code := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = 127
	}
	return &hypervisor.StartError{Argv0: argv0, ExitCode: code, Err: err}
}

func (p *process) reap() {
	defer close(p.ended)
	ws := p.child.Reap()
	_ = p.cmd.Process.Release()
	p.status.Duration = time.Since(p.started)
	if p.status.Code = ws.ExitStatus(); ws.Signaled() {
		p.status.Signal = int(ws.Signal())
		p.status.Code = 128 + p.status.Signal
	}
}

func (p *process) Terminal() *os.File { return p.terminal }

// Signal reaches the whole process group, as long as the command lives: later its number may be another's.
func (p *process) Signal(sig int) error {
	err := p.child.While(func() error { return syscall.Kill(-p.child.PID, syscall.Signal(sig)) })
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// PID implements [hypervisor.Process].
func (p *process) PID() int { return p.child.PID }

func (p *process) Resize(rows, cols uint16) error {
	if p.terminal == nil {
		return nil
	}
	conn, err := p.terminal.SyscallConn() // Fd would race with Close
	if err != nil {
		return err
	}
	var ioctlErr error
	err = conn.Control(func(fd uintptr) {
		ioctlErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, ioctlErr)
}

// Cancel ends the process group: TERM, then KILL after grace.
func (p *process) Cancel(grace time.Duration) error {
	if err := p.Signal(int(syscall.SIGTERM)); err != nil {
		return nil //nolint:nilerr // already gone
	}
	_ = p.Signal(int(syscall.SIGCONT))
	t := time.AfterFunc(grace, func() { _ = p.Signal(int(syscall.SIGKILL)) })
	go func() { <-p.ended; t.Stop() }()
	return nil
}

func (p *process) Wait(ctx context.Context) (hypervisor.ExitStatus, error) {
	select {
	case <-p.ended:
		return p.status, nil
	case <-ctx.Done():
		return hypervisor.ExitStatus{}, ctx.Err()
	}
}

// openPTY opens a pseudo-terminal pair of the given size.
func openPTY(t hypervisor.TTY) (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(m), "pty")
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(m, unix.TIOCSWINSZ, &unix.Winsize{Row: t.Rows, Col: t.Cols})
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}
