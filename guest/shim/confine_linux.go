package shim

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Confinement starts the commands of a shim that has no namespaces to itself, only a
// Landlock domain. Commands are in a domain below the shim's, so that none of them can send
// the shim a signal or trace it. A nil Confinement starts commands as they are.
type Confinement struct{ starts chan func() }

// Confine makes the process the reaper of orphans, and returns what starts commands in the
// domain of the Landlock rules that fd holds, which it closes. The process must be in a
// domain already that keeps signals in.
func Confine(fd int) (*Confinement, error) {
	c := &Confinement{starts: make(chan func())}
	failed := make(chan error)
	go c.serve(fd, failed)
	err := <-failed
	if err == nil {
		err = os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	}
	return c, errors.Join(err, unix.Close(fd))
}

// serve makes a thread, which is nobody else's, part of the domain. What it starts is, too.
func (c *Confinement) serve(fd int, failed chan<- error) {
	runtime.LockOSThread() // for ever
	if unix.Gettid() == unix.Getpid() {
		go c.serve(fd, failed) // the domain of the first thread counts as the process's
		select {}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		failed <- os.NewSyscallError("landlock_restrict_self", errno)
		return
	}
	failed <- nil
	for f := range c.starts {
		f()
	}
}

// forkExec is [syscall.ForkExec] in the domain.
func (c *Confinement) forkExec(argv0 string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if c == nil {
		return syscall.ForkExec(argv0, argv, attr)
	}
	done := make(chan struct{})
	c.starts <- func() {
		defer close(done)
		pid, err = syscall.ForkExec(argv0, argv, attr)
	}
	<-done
	return pid, err
}

// end kills every command and what came of it, at one instant: what is about to fork does
// not. No other is started. It returns when all have ended.
func (c *Confinement) end() error {
	if c == nil {
		return nil
	}
	killed := make(chan error)
	c.starts <- func() {
		killed <- unix.Kill(-1, unix.SIGKILL)
		select {}
	}
	if err := <-killed; err != nil && err != unix.ESRCH {
		return os.NewSyscallError("kill", err)
	}
	for {
		switch unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WALL, nil) {
		case nil, unix.EINTR: // one is gone; reap may have been quicker
		default: // ECHILD: nobody is left
			return nil
		}
	}
}
