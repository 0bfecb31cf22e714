package shim

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

var errNotFound = errors.New("command not found")

// command is one running command.
type command struct {
	s     *Server
	id    int64
	m     *control.Message
	files []*os.File // the command's own stdin, stdout, stderr until it has started
	// further are its other files, by the numbers in m.Further; until it has started, too.
	further []*os.File

	pid     int     // of the process that is waited for; 0 until it runs; the Server's mu guards it until then
	leader  *leader // that process, if it leads the command's session and is not its program
	group   int     // the program's process, if that is another: a leader or a parent is above it
	above   *parent // that parent, until the command is over; the Server's mu guards it once the command runs
	begin   time.Time
	exited  chan end // room for one
	quick   bool     // nothing but its end is waited for, and reap completes it
	result  end
	stdin   *inbox
	window  *window
	outputs []*output
	pumps   sync.WaitGroup
	give    *os.File // master that goes to the host

	mu     sync.Mutex
	master *os.File  // that stays here, or nil
	kill   time.Time // when a cancelled command is killed; zero if not cancelled
}

// end is how a command's first process ended.
type end struct {
	unix.WaitStatus
	alone bool // no other process is left
}

// output is a pipe (or master) whose data goes to the host by messages.
type output struct {
	stream string
	f      *os.File
}

func newCommand(s *Server, m *control.Message, files []*os.File) *command {
	streams := len(files) - len(m.Further) // not negative: see [control.Parse]
	return &command{
		s: s, id: m.ID, m: m, files: files[:streams:streams], further: files[streams:],
		exited: make(chan end, 1), stdin: newInbox(), window: newWindow(),
	}
}

func (c *command) closeFiles() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}

// closeAll is closeFiles with the further ones.
func (c *command) closeAll() {
	c.closeFiles()
	for _, f := range c.further {
		_ = f.Close()
	}
	c.further = nil
}

// descriptors are the command's, by number.
func (c *command) descriptors() []uintptr {
	list := make([]uintptr, max(len(c.files), slices.Max(append(c.m.Further, 0))+1))
	for i := range list {
		list[i] = ^uintptr(0)
	}
	for i, f := range c.files {
		list[i] = f.Fd()
	}
	for i, f := range c.further {
		list[c.m.Further[i]] = f.Fd()
	}
	return list
}

// start makes the streams and the process, whose number it returns. On error nothing is left.
func (c *command) start() (pid int, err error) {
	defer c.closeAll()
	defer func() {
		if err != nil {
			c.closeOwn()
		}
	}()
	argv := asStrings(c.m.Argv)
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-c", string(c.m.Command)}
	}
	env := c.s.o.Env
	if c.m.Env != nil {
		env = asStrings(c.m.Env)
	}
	for _, s := range append(append([]string(nil), argv...), env...) {
		if strings.IndexByte(s, 0) >= 0 {
			return 0, errors.New("an argument or variable holds a NUL byte")
		}
	}
	dir := string(c.m.Cwd)
	if dir == "" {
		dir = "/"
	}
	over := func() bool {
		_, is := c.cancelled()
		return is
	}
	path := "/proc/self/exe"
	if c.m.Own {
		env = leaderEnv()
	} else if path, err = newSearch(dir, env, over).program(argv[0]); err != nil {
		return 0, err
	}
	sys := &syscall.SysProcAttr{Setsid: true, Credential: c.s.o.Credential}
	if err := c.makeStreams(sys); err != nil {
		return 0, err
	}
	if over() {
		return 0, errors.New("it was cancelled before it had started")
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Sys: sys, Files: c.descriptors()}
	c.begin = time.Now()
	if c.wantsParent() {
		defer ignoring(nil)() // what we ignore does not change meanwhile
		pid, err = c.startBelow(path, argv, attr)
	} else {
		pid, err = c.startItself(path, argv, attr)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", argv[0], err)
	}
	return pid, nil
}

// startItself starts the command as a child of ours, or of a leader.
func (c *command) startItself(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	defer limitProcesses(c.s.o.Processes)()
	if c.m.Limits != nil {
		if argv, err = limitedArgs(c.m.Limits, path, argv); err != nil {
			return 0, err
		}
		path = "/proc/self/exe"
	}
	if c.wantsLeader() {
		return c.lead(path, argv, attr)
	}
	defer ignoring(c.m.Ignored)()
	return startProgram(c.s.o.Confined.forkExec, path, argv, attr)
}

// startProgram starts a program by fork, which is or is like [syscall.ForkExec].
func startProgram(fork func(string, []string, *syscall.ProcAttr) (int, error), path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	pid, err = fork(path, argv, attr)
	if err == syscall.ENOEXEC { // a script without an interpreter line, as shells take it
		pid, err = fork("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), attr)
	}
	return pid, err
}

// spawning guards our own limit of processes.
var spawning sync.Mutex

// limitProcesses gives this process, until the returned function is called, the limit of processes that what it
// starts shall have.
func limitProcesses(n int) (restore func()) {
	if n <= 0 {
		return func() {}
	}
	spawning.Lock()
	if mayBeFull(n) {
		idleThreads(8)
	}
	var own unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NPROC, &own)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: min(uint64(n), own.Max), Max: own.Max})
	}
	return func() {
		if err == nil {
			_ = unix.Setrlimit(unix.RLIMIT_NPROC, &own) // it is what it was
		}
		spawning.Unlock()
	}
}

// mayBeFull tells whether there may be n processes and threads. It asks how many the whole machine has, which costs
// next to nothing; the kernel gives 16 bits of that.
func mayBeFull(n int) bool {
	var info unix.Sysinfo_t
	return n >= 1<<15 || unix.Sysinfo(&info) != nil || int(info.Procs)+64 >= n
}

// idleThreads sees to it that the Go runtime has n threads that do nothing. While the limit of processes is the
// commands', a fork bomb may have used it up, and if the runtime then needs a thread and gets none, it ends this
// process, and with it all that is inside.
func idleThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}

func (c *command) makeStreams(sys *syscall.SysProcAttr) error {
	switch {
	case c.m.TTY.Partial() && len(c.files) == 3:
		return c.makePartial(sys)
	case c.m.TTY != nil:
		c.closeFiles()
		return c.makeTerminal(sys)
	case len(c.files) == 3:
		return nil
	}
	c.closeFiles()
	c.files = make([]*os.File, 0, 3)
	var in *os.File
	var err error
	if c.m.Stdin {
		var w *os.File
		if in, w, err = os.Pipe(); err != nil {
			return err
		}
		c.stdin.w = w
	} else if in, err = os.Open(os.DevNull); err != nil {
		return err
	}
	c.files = append(c.files, in)
	for _, stream := range []string{control.Stdout, control.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		c.files = append(c.files, w)
		c.outputs = append(c.outputs, &output{stream, r})
	}
	return nil
}

// makePartial makes a terminal that is some of the streams; the others have come. What is done with line ends is up to the terminal outside,
// where others may write, too.
func (c *command) makePartial(sys *syscall.SysProcAttr) error {
	given := c.files
	if err := c.makeTerminal(sys); err != nil {
		c.files = given
		return err
	}
	f := c.files[0]
	modes, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		modes.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, modes)
	}
	for i := range given {
		if c.m.TTY.Of&(1<<i) != 0 {
			_ = given[i].Close()
			given[i] = f
		}
	}
	c.files = given
	sys.Ctty = bits.TrailingZeros8(c.m.TTY.Of) // what is typed comes by /dev/tty alone if that is not stdin
	if err != nil {
		return fmt.Errorf("no terminal: %w", err)
	}
	return nil
}

func (c *command) makeTerminal(sys *syscall.SysProcAttr) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("no terminal: %w", err)
	}
	master := os.NewFile(uintptr(fd), "master")
	c.give = master
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("no terminal: %w", err)
	}
	size := &unix.Winsize{Row: c.m.TTY.Rows, Col: c.m.TTY.Cols}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size); err != nil {
		return fmt.Errorf("no terminal: %w", err)
	}
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fmt.Errorf("no terminal: %w", errno)
	}
	f := os.NewFile(slave, "terminal")
	c.files = []*os.File{f, f, f}
	sys.Setctty, sys.Ctty = true, 0
	if c.s.link.PassesFDs() {
		return nil
	}
	c.give, c.master = nil, master
	c.stdin.w, c.stdin.shared = master, true
	c.outputs = []*output{{control.Stdout, master}}
	return nil
}

func (c *command) closeOwn() {
	for _, f := range []*os.File{c.give, c.stdin.w} {
		_ = f.Close() // of a nil file is an error only
	}
	for _, o := range c.outputs {
		_ = o.f.Close()
	}
}

// first is the process of the command's program.
func (c *command) first() int {
	if c.group != 0 {
		return c.group
	}
	return c.pid
}

// session is the number of the command's session.
func (c *command) session() int {
	if c.leader != nil {
		return c.pid
	}
	return c.first()
}

// announce tells the host that the command runs, and begins to pass its data.
func (c *command) announce() {
	started := &control.Message{Type: control.TypeStepStarted, ID: c.id, PID: c.first()}
	if c.give != nil {
		_ = c.s.link.Send(started, c.give) // the reader notices a broken channel
		_ = c.give.Close()
	} else {
		_ = c.s.link.Send(started)
	}
	if c.leader != nil {
		go c.leader.hear(func(signal int) {
			_ = c.s.link.Send(&control.Message{Type: control.TypeStopped, ID: c.id, Signal: signal})
		})
	}
	if c.stdin.w != nil {
		go c.stdin.pump(func(n int) {
			_ = c.s.link.Send(&control.Message{Type: control.TypeAck, ID: c.id, Bytes: n})
		})
	}
	for _, o := range c.outputs {
		c.pumps.Add(1)
		go c.pumpOutput(o)
	}
}

// rest returns when the command has ended and its output is sent.
func (c *command) rest() {
	c.result = <-c.exited
	c.led()
	c.sweep()
	c.stdin.close()
	for _, o := range c.outputs {
		_ = o.f.SetReadDeadline(time.Now()) // stop waiting for what background processes may write
	}
	c.pumps.Wait()
}

func (c *command) complete() {
	m := &control.Message{Type: control.TypeStepCompleted, ID: c.id, DurationNS: int64(time.Since(c.begin)), Alone: c.result.alone}
	code := c.result.ExitStatus()
	if c.result.Signaled() {
		m.Signal = int(c.result.Signal())
		code = 128 + m.Signal
	}
	m.ExitCode = &code
	_ = c.s.link.Send(m)
}

// pumpOutput sends until the pipe's end, or until the command has ended and the
// pipe is empty; it then keeps a pipe's reader alive for background processes.
func (c *command) pumpOutput(o *output) {
	defer c.pumps.Done()
	buf := make([]byte, control.MaxData)
	for {
		n, err := o.f.Read(buf)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			if n = readNow(o.f, buf); n == 0 {
				_ = o.f.SetReadDeadline(time.Time{})
				go func() {
					_, _ = io.Copy(io.Discard, o.f)
					_ = o.f.Close()
				}()
				return
			}
			err = nil
		}
		if n > 0 {
			c.window.take(n)
			_ = c.s.link.Send(&control.Message{Type: control.TypeOutput, ID: c.id, Stream: o.stream, Data: control.Text(buf[:n])})
		}
		if err != nil { // io.EOF, or EIO of a terminal that was hung up
			_ = o.f.Close()
			return
		}
	}
}

// readNow reads what a pollable file holds already.
func readNow(f *os.File, buf []byte) (n int) {
	rc, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = rc.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), buf); err != unix.EINTR {
				return
			}
		}
	})
	return max(n, 0)
}
