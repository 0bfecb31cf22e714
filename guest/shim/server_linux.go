package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/script"
)

// Options of a [Server].
type Options struct {
	// Init says that this process is PID 1: it reaps orphans and ignores
	// signals.
	Init bool
	// Env is the environment of commands that bring none.
	Env []string
	// Credential, if set, is what commands run as; else as we do.
	Credential *syscall.Credential
	// Invalidate and Sync do what the host asks for by these names; nil means
	// that it is not needed here.
	Invalidate, Sync func() error
	// SetClock sets the clock; nil means that it is the host's own.
	SetClock func(time.Time) error
	// NotifyDir, if not empty, holds the file "rollback", which tells programs
	// which step was rolled back last.
	NotifyDir string
	// InsideSocket, if not empty, is where programs inside ask for steps of their own. We
	// only make the socket: the host accepts there.
	InsideSocket string
	// Agents are what programs inside find the socket of an agent outside for, see [control.AgentSocket]. The host accepts there, too.
	Agents []string
	// Processes, if it is not 0, is how many processes and threads commands may start, all
	// together. We ourselves may start more.
	Processes int
	// Warnings are sent with hello.
	Warnings []string
	// Confined starts commands in a Landlock domain of their own; nil: in ours. With it,
	// we are the reaper of orphans in place of PID 1, and the end of the service kills
	// everything in that domain.
	Confined *Confinement
}

// deadly signals would end the Go runtime if nobody asked for them.
var deadly = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS,
	syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGSTKFLT,
}

// Server is the guest's end of a control channel.
type Server struct {
	link *control.Link
	o    Options

	mu       sync.Mutex
	cmds     map[int64]*command
	conns    map[int64]*connection // [Server.connect]
	byPID    map[int]*command
	starting int
	early    map[int]end      // ended before we knew their command
	scripts  []*script.Script // that are kept for the next commands

	waking atomic.Int32 // requests to wake that are under way

	forked chan struct{} // room for one: there is a child to wait for

	env []control.Text // that the last exec brought which brought one; the reader's
}

// Serve answers the host until it says shutdown or the channel ends (nil in
// both cases), then kills what is running. As init the caller exits next, which
// ends every process.
func Serve(c control.Conn, o Options) error {
	s := &Server{
		link: control.NewLink(c), o: o,
		cmds: make(map[int64]*command), conns: make(map[int64]*connection), byPID: make(map[int]*command), early: make(map[int]end),
		forked: make(chan struct{}, 1),
	}
	defer s.link.Close()
	if o.Init {
		// Signals that the workload sends us must not have their default effect.
		go catch() // each signal takes 40 us: not before hello
		go s.reap()
	}
	if err := s.link.Send(&control.Message{Type: control.TypeHello, Version: control.Version, Warnings: o.Warnings}); err != nil {
		return err
	}
	s.offerInside()
	for {
		m, files, err := s.link.Receive()
		if err != nil {
			if errors.Is(err, control.ErrMalformed) || errors.Is(err, control.ErrTooLarge) || errors.Is(err, control.ErrUnknown) {
				s.report(err)
				continue
			}
			s.killAll()
			return s.o.Confined.end()
		}
		if m.Type == control.TypeShutdown {
			s.killAll()
			return s.o.Confined.end()
		}
		s.handle(m, files)
	}
}

func (s *Server) report(err error) {
	_ = s.link.Send(&control.Message{Type: control.TypeError, Error: err.Error()}) // the reader notices a broken channel
}

// find returns what has a number: one of both, or nothing.
func (s *Server) find(id int64) (*command, *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmds[id], s.conns[id]
}

func (s *Server) handle(m *control.Message, files []*os.File) {
	if m.Type == control.TypeExec && m.Port == 0 {
		s.exec(m, files)
		return
	}
	for _, f := range files {
		_ = f.Close()
	}
	switch m.Type {
	case control.TypeRollbackNotify:
		if err := s.notify(m.StepID); err != nil {
			s.report(err)
		}
	case control.TypeClock:
		if s.o.SetClock == nil {
			return
		}
		if err := s.o.SetClock(time.Unix(0, m.TimeNS)); err != nil {
			s.report(err)
		}
	case control.TypeInvalidate, control.TypeSync:
		go s.do(m) // it may wait for a bridge
	case control.TypeDial:
		go s.dial(m)
	case control.TypeExec:
		s.connect(m)
	case control.TypeWake:
		s.wake(m)
	default:
		s.pass(m)
	}
}

// pass passes a message on to the command or connection that it is for.
func (s *Server) pass(m *control.Message) {
	c, conn := s.find(m.ID)
	var err error
	switch {
	case conn != nil:
		err = conn.handle(m)
	case c != nil:
		err = c.handle(m)
	} // else it has ended meanwhile
	if err != nil {
		s.report(fmt.Errorf("command %d: %w", m.ID, err))
	}
}

// handle does what the host asks of a command.
func (c *command) handle(m *control.Message) (err error) {
	switch m.Type {
	case control.TypeCancel:
		c.cancel(time.Duration(m.GraceMS) * time.Millisecond)
	case control.TypeSignal:
		err = c.signal(syscall.Signal(m.Signal))
	case control.TypeResize:
		err = c.resize(m.Rows, m.Cols)
	case control.TypeStdin:
		err = c.stdin.write(string(m.Data))
	case control.TypeStdinClose:
		c.stdin.close()
	case control.TypeAck:
		c.window.give(m.Bytes)
	default:
		err = fmt.Errorf("unexpected %s", m.Type)
	}
	return err
}

// do carries out invalidate and sync.
func (s *Server) do(m *control.Message) {
	f := s.o.Invalidate
	if m.Type == control.TypeSync {
		f = s.o.Sync
	}
	done := &control.Message{Type: control.TypeDone, Request: m.Request}
	if f != nil {
		if err := f(); err != nil {
			done.Error = err.Error()
		}
	}
	_ = s.link.Send(done) // the reader notices a broken channel
}

// exec starts a command without blocking the channel: its program may lie on a
// bridge that takes its time.
func (s *Server) exec(m *control.Message, files []*os.File) {
	switch {
	case m.EnvAgain:
		m.Env = s.env
	case m.Env != nil:
		s.env = m.Env
	}
	c := newCommand(s, m, files)
	s.mu.Lock()
	_, dup := s.cmds[m.ID]
	if !dup {
		s.cmds[m.ID] = c
		s.starting++
	}
	s.mu.Unlock()
	if dup {
		c.closeAll()
		s.report(fmt.Errorf("command %d is running already", m.ID))
		return
	}
	go s.run(c)
}

func (s *Server) run(c *command) {
	pid, err := c.start()
	s.mu.Lock()
	s.starting--
	if err != nil {
		delete(s.cmds, c.id)
	} else {
		c.pid = pid
		select {
		case s.forked <- struct{}{}:
		default:
		}
		s.register(c)
	}
	if s.starting == 0 {
		clear(s.early)
	}
	s.mu.Unlock()
	if err != nil {
		code := 126
		if errors.Is(err, errNotFound) {
			code = 127
		}
		_ = s.link.Send(&control.Message{Type: control.TypeStartFailed, ID: c.id, ExitCode: &code, Error: err.Error()})
		return
	}
	if !s.o.Init {
		go s.waitFor(c)
	}
	if _, ok := c.cancelled(); ok { // before it had started
		c.killSession(unix.SIGKILL)
	}
	c.announce()
	if !s.leave(c) {
		s.finish(c)
	}
}

// runs tells whether a command's end is still waited for, so that its numbers are its own; the caller holds the lock.
func (s *Server) runs(c *command) bool {
	return s.byPID[c.pid] == c || c.group != 0 && s.byPID[c.group] == c
}

// finish waits for a command's end and all that it means.
func (s *Server) finish(c *command) {
	c.rest()
	s.mu.Lock()
	delete(s.cmds, c.id)
	s.mu.Unlock()
	c.complete()
}

// leave leaves a command that runs to reap, and reports whether it could: to
// wake another goroutine, and with it another thread, takes longer than the rest
// of a command's end.
func (s *Server) leave(c *command) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.quick = s.o.Init && c.stdin.w == nil && len(c.outputs) == 0 && c.leader == nil && s.runs(c)
	return c.quick
}

// waitFor is reap for a server that is not init. It looks before it reaps, so
// that the number is not used for another process while byPID holds it.
func (s *Server) waitFor(c *command) {
	var st end
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.mu.Lock()
	delete(s.byPID, c.pid)
	for {
		if _, err := unix.Wait4(c.pid, &st.WaitStatus, 0, nil); err != unix.EINTR {
			break
		}
	}
	s.mu.Unlock()
	c.exited <- st
}

// reap collects every child that ends, ours and orphans, for as long as the
// process lives. It waits in the kernel, which wakes it at once; SIGCHLD would
// come by way of two more threads.
func (s *Server) reap() {
	for {
		pid, err := ended()
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD: nobody lives, and without a child there is no orphan
			<-s.forked
			continue
		}
		if c := s.collect(pid); c != nil {
			c.complete()
		}
	}
}

// alone reports whether no process is left; the caller holds the lock.
func (s *Server) alone() bool {
	return s.starting == 0 && unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

// collect reaps a child that has ended. It returns the command that is over with
// it, if nobody else waits for that.
func (s *Server) collect(pid int) *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	var st end
	// Reaped with the lock held: while byPID has it, the number is its own.
	if got, err := unix.Wait4(pid, &st.WaitStatus, unix.WNOHANG, nil); err != nil || got != pid {
		return nil
	}
	c := s.byPID[pid]
	if c == nil {
		if s.starting > 0 {
			s.early[pid] = st
		}
		return nil
	}
	if !s.over(c, pid, &st.WaitStatus) {
		return nil
	}
	st.alone = s.alone()
	_, cancelled := c.cancelled()
	if c.quick && !cancelled {
		delete(s.cmds, c.id)
		c.result = st
		return c
	}
	c.exited <- st // has room for one
	if c.quick {   // what is left of its session takes time
		go s.finish(c)
	}
	return nil
}

// ended waits for a child to end and returns its number, without reaping it.
func ended() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	// struct siginfo: three ints, padding to a word, then for SIGCHLD the number.
	const word = unsafe.Sizeof(uintptr(0))
	const at = (3*unsafe.Sizeof(info.Signo) + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), nil
}

func (s *Server) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.byPID {
		killSession(c.session(), unix.SIGKILL)
	}
	for _, c := range s.cmds {
		c.window.end()
	}
	for _, c := range s.conns {
		c.abort()
	}
}

// notify leaves the number of the step that was rolled back where programs can
// watch for it.
func (s *Server) notify(step int64) error {
	if s.o.NotifyDir == "" {
		return nil
	}
	tmp := filepath.Join(s.o.NotifyDir, ".rollback")
	if err := os.WriteFile(tmp, []byte(strconv.FormatInt(step, 10)+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(s.o.NotifyDir, "rollback"))
}
