package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/nofile"
	"github.com/codeagent/sandbox/guest/script"
)

// A program that finds process 1 as its parent takes itself for left behind (nnn, PyQS), so process 1 is no command's parent. Between it and a command
// that has no leader stands a process without a program: it makes the few system calls that start the command, waits for it, and ends. Where the processor
// lets it (guest/script), it shares our memory, so that it costs little. It leads a session of its own, has nothing open, and no signal but KILL and STOP acts on it:
// our handlers never run there. Nobody inside reaches our memory through it, which is not dumpable.

// parent is what we know of a command's parent. It writes into memory that it shares with us.
type parent struct {
	script *script.Script
	// child is the command's number. If it stays 0, there could be no second process, and the parent has become the command.
	child *atomic.Uint32
	// status is how the command has ended, as of wait, or unended. The parent may be killed before it knows.
	status *atomic.Uint32
}

// unended is no status of a process that has ended.
const unended = ^uint32(0)

// wantsParent tells whether a process stands between us and the command. Where we are not process 1, we are its parent.
func (c *command) wantsParent() bool {
	return c.s.o.Init && c.s.o.Confined == nil && !c.wantsLeader() && !c.m.Own
}

// startBelow starts a command below a parent of its own, and returns the parent's number. On error nothing is left.
func (c *command) startBelow(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	var pipe [2]int // its other end is closed when the command runs, or will not
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(pipe[0])
	done := sync.OnceFunc(func() { _ = unix.Close(pipe[1]) })
	defer done()
	s, err := c.s.script(roomFor(argv, attr.Env))
	if err != nil {
		return 0, err
	}
	w := script.Bare(s)
	p := &parent{script: s}
	b := birth{Writer: w, c: c, path: path, argv: argv, attr: attr, pipe: pipe[1]}
	if p.child, p.status = b.write(); w.Err != nil {
		c.s.giveBack(s)
		return 0, w.Err
	}
	syscall.ForkLock.Lock()
	pid, errno := script.Beside(s)
	syscall.ForkLock.Unlock()
	done() // so that the pipe's end is theirs
	if errno != 0 {
		c.s.giveBack(s)
		return 0, errno
	}
	hear(pipe[0])
	if err := w.Failure(); err != nil {
		c.s.bury(pid)
		c.s.giveBack(s)
		if e, ok := errors.AsType[*script.Error](err); ok && e.What == executing {
			return 0, e.Err
		}
		return 0, err
	}
	c.group, c.above = int(p.child.Load()), p
	return pid, nil
}

// hear returns when the other end of a pipe is closed.
func hear(fd int) {
	var b [1]byte
	for {
		if _, err := unix.Read(fd, b[:]); err != unix.EINTR {
			return
		}
	}
}

// bury returns when a child of ours is dead whose command does not run.
func (s *Server) bury(pid int) {
	s.mu.Lock()
	if _, gone := s.early[pid]; !gone { // so that the number is still its own
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	s.mu.Unlock()
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

const (
	keptScripts = 4       // scripts that are kept for other commands, at most,
	keptRoom    = 1 << 18 // and how many bytes of data each has
)

// script returns an empty script with that much room. To have one at hand saves the kernel from clearing its pages.
func (s *Server) script(room int) (*script.Script, error) {
	if room > keptRoom {
		return script.NewFor(room)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.scripts); n > 0 {
		kept := s.scripts[n-1]
		s.scripts = s.scripts[:n-1]
		kept.Again()
		return kept, nil
	}
	return script.NewFor(keptRoom)
}

// giveBack is keep for who does not hold the lock.
func (s *Server) giveBack(used *script.Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(used)
}

// keep takes a script that nothing uses any more; the caller holds the lock.
func (s *Server) keep(used *script.Script) {
	if len(s.scripts) == keptScripts || used.Room() > keptRoom {
		used.Free()
		return
	}
	s.scripts = append(s.scripts, used)
}

// roomFor is how much memory the text of a command takes, and what comes with it.
func roomFor(lists ...[]string) int {
	n := 16 << 10
	for _, l := range lists {
		for _, s := range l {
			n += 2 * (len(s) + 24) // argv may be written twice
		}
	}
	return n
}

// executing is what a command's last step is called.
const executing = "executing"

// birth writes what happens between us and a command.
type birth struct {
	*script.Writer
	c    *command
	path string
	argv []string
	attr *syscall.ProcAttr
	pipe int // it stays open until the command executes its program
}

// write writes the parent's life. It returns where the command's number is written, and how it has ended.
func (b *birth) write() (child, status *atomic.Uint32) {
	childAt, child := b.Word(0)
	statusAt, status := b.Word(unended)
	b.Call("setsid", unix.SYS_SETSID)
	b.Call("naming", unix.SYS_PRCTL, unix.PR_SET_NAME, b.Text(control.GuestProgram), 0, 0, 0)
	b.handle(unix.SIGCHLD, sigDefault)
	if n := b.c.s.o.Processes; n > 0 { // it holds for the next call, too
		own := b.c.ownLimit(unix.RLIMIT_NPROC)
		b.limit(unix.RLIMIT_NPROC, own)
	}
	clone := b.Call("clone", unix.SYS_CLONE, script.Child|unix.CLONE_PARENT_SETTID, 0, childAt, 0, 0)
	clone.May = unix.EAGAIN // there may be no second process: this one becomes the command
	b.command()
	clone.Above = b.Here()
	b.Call("closing", unix.SYS_CLOSE_RANGE, 0, uintptr(^uint32(0)), 0)
	b.Call("waiting", unix.SYS_WAIT4, ^uintptr(0), statusAt, 0, 0)
	b.Call("ending", unix.SYS_EXIT_GROUP, 0)
	return child, status
}

// command writes what the command's process does before it is the command's program.
func (b *birth) command() {
	b.signals()
	b.Call("setsid", unix.SYS_SETSID).May = unix.EPERM // it has become the command
	if who := b.attr.Sys.Credential; who != nil {
		b.Call("setgroups", unix.SYS_SETGROUPS, 0, 0)
		b.Call("setgid", unix.SYS_SETGID, uintptr(who.Gid))
		b.Call("setuid", unix.SYS_SETUID, uintptr(who.Uid))
	}
	b.Call(control.NoDirectory+b.attr.Dir, unix.SYS_CHDIR, b.Text(b.attr.Dir))
	b.descriptors()
	if b.attr.Sys.Setctty {
		b.Call("taking the terminal", unix.SYS_IOCTL, uintptr(b.attr.Sys.Ctty), unix.TIOCSCTTY, 0)
	}
	b.limits() // not before: descriptors may have numbers beyond the limit
	b.Call("unblocking signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, b.Mask(), 0, sigsetBytes)
	env := b.Texts(b.attr.Env...)
	b.Call(executing, unix.SYS_EXECVE, b.Text(b.path), b.Texts(b.argv...), env).May = unix.ENOEXEC
	// It is a script without an interpreter line, as shells take it.
	argv := append([]string{"/bin/sh", b.path}, b.argv[1:]...)
	b.Call(executing, unix.SYS_EXECVE, b.Text(argv[0]), b.Texts(argv...), env)
}

// descriptors writes how the command gets its descriptors. One that has the number of another is moved away first: here, since if our own table had to become
// larger, the kernel would wait for all processors.
func (b *birth) descriptors() {
	files := slices.Clone(b.attr.Files)
	taken := func(n int) bool {
		return n == b.pipe || slices.Contains(b.attr.Files, uintptr(n)) || slices.Contains(files, uintptr(n)) || n < len(files) && files[n] != ^uintptr(0)
	}
	free := 0
	away := func(what string, fd uintptr) uintptr {
		for taken(free) {
			free++
		}
		free++
		b.Call(what, unix.SYS_DUP3, fd, uintptr(free-1), unix.O_CLOEXEC)
		return uintptr(free - 1)
	}
	if b.pipe < len(files) && files[b.pipe] != ^uintptr(0) {
		away("moving the pipe", uintptr(b.pipe))
	}
	for i, fd := range files {
		if int(fd) != i && fd < uintptr(len(files)) && files[fd] != ^uintptr(0) {
			files[i] = away(descriptor(i), fd)
		}
	}
	for i, fd := range files {
		switch {
		case fd == ^uintptr(0):
		case int(fd) == i:
			b.Call(descriptor(i), unix.SYS_FCNTL, fd, unix.F_SETFD, 0)
		default:
			b.Call(descriptor(i), unix.SYS_DUP3, fd, uintptr(i), 0)
		}
	}
}

const (
	sigDefault  = 0 // values of a signal's handler
	sigIgnore   = 1
	lastSignal  = 64
	sigsetBytes = 8
)

// signals gives the process none of our handlers: what we ignore is ignored, and what the command's message says.
func (b *birth) signals() {
	for sig := uintptr(1); sig <= lastSignal; sig++ {
		var now [4]uint64 // struct sigaction: the handler comes first
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), sigsetBytes, 0, 0)
		switch {
		case slices.Contains(b.c.m.Ignored, int(sig)):
			b.handle(syscall.Signal(sig), sigIgnore)
		case errno != 0 || now[0] <= sigIgnore:
		default:
			b.handle(syscall.Signal(sig), sigDefault)
		}
	}
}

// handle has a signal handled so, if it can be.
func (b *birth) handle(sig syscall.Signal, how uint64) {
	b.Call("handling signals", unix.SYS_RT_SIGACTION, uintptr(sig), b.Words(how, 0, 0, 0), 0, sigsetBytes).May = unix.EINVAL
}

// limits writes the command's limits.
func (b *birth) limits() {
	files := true
	if l := b.c.m.Limits; l != nil {
		if l.Nice > 0 {
			b.Call("nice", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(l.Nice)).May = unix.EACCES
		}
		for _, limit := range lowered(l, b.c.ownLimit) {
			b.limit(limit.Resource, syscall.Rlimit{Cur: limit.Soft, Max: limit.Hard})
			files = files && limit.Resource != unix.RLIMIT_NOFILE
		}
	}
	if files { // Go has raised ours
		soft, hard := nofile.Started()
		b.limit(unix.RLIMIT_NOFILE, syscall.Rlimit{Cur: soft, Max: hard})
	}
}

func (b *birth) limit(resource int, l syscall.Rlimit) {
	b.Call("limiting", unix.SYS_PRLIMIT64, 0, uintptr(resource), b.Words(l.Cur, l.Max), 0).May = unix.EPERM
}

// ownLimit is what a command has of a resource if it brings no limit.
func (c *command) ownLimit(resource int) syscall.Rlimit {
	own := syscall.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	_ = syscall.Getrlimit(resource, &own)
	if n := c.s.o.Processes; n > 0 && resource == unix.RLIMIT_NPROC {
		own.Cur = min(uint64(n), own.Max)
	}
	return own
}

// parent is the number of the process above the command that we are the parent of; 0 if there is none.
func (c *command) parent() int {
	if c.leader != nil || c.group == 0 {
		return 0
	}
	return c.pid
}

// register notes whose end is the command's; the caller holds the lock. If its parent is killed, we become the command's own.
func (s *Server) register(c *command) {
	s.byPID[c.pid] = c
	if c.parent() != 0 {
		s.byPID[c.group] = c
	}
	for _, pid := range []int{c.group, c.pid} {
		if st, ok := s.early[pid]; ok && s.byPID[pid] == c && s.over(c, pid, &st.WaitStatus) {
			st.alone = s.alone()
			c.exited <- st
		}
	}
}

// over tells whether a command has ended, now that one of its processes has, and how: that is in st, for a parent that of its command. It forgets the process
// or both; the caller holds the lock.
func (s *Server) over(c *command, pid int, st *unix.WaitStatus) bool {
	delete(s.byPID, pid)
	if pid == c.parent() {
		switch status := c.above.status.Load(); {
		case status != unended:
			*st = unix.WaitStatus(status)
		case unix.Waitid(unix.P_PID, c.group, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil:
			return false // it was killed before it knew, and we are the command's parent now
		}
	}
	delete(s.byPID, c.pid)
	delete(s.byPID, c.group)
	if c.above != nil { // neither the command nor its parent is in it any more
		s.keep(c.above.script)
		c.above = nil
	}
	return true
}

// descriptor is what giving the command a descriptor is called.
func descriptor(n int) string { return fmt.Sprintf("descriptor %d", n) }
