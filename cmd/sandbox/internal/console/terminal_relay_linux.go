//go:build linux && !portable

package console

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/codeagent/sandbox/hypervisor"
)

// Relay connects the user's terminal with the command's pseudo-terminal.
// One goroutine moves the bytes of both directions; it also runs the prompts,
// so that while one is on the screen nothing else reads or writes the terminal.
type Relay struct {
	in, out *os.File // in is nil if the user's stdin is no terminal, and no other of his files is one that can be read
	aside   bool     // in is not his stdin: the command reads it as /dev/tty, if at all
	of      [3]bool  // which of the user's files are terminals
	// Returned, if it is set before Start, is called when a job that was in the background has come to the front. It must not block.
	Returned func()

	mu      sync.Mutex // guards what follows
	saved   *term.State
	proc    hypervisor.Process
	started bool
	held    bool // a question is on the terminal
	away    bool // in the background: a shell does not tell when that ends

	master int    // our own descriptor of the pseudo-terminal
	wake   [2]int // a byte in it makes the goroutine look at tasks
	tasks  chan func()
	done   chan struct{} // closed when the goroutine has ended
	once   sync.Once

	// Only the goroutine uses these.
	toCommand []byte // read from the user, not yet taken by the command
	inClosed  bool
	hungUp    bool // nobody has the other end of the pseudo-terminal open
	ending    time.Time
	modes     modes // of a partial one
	question  bool  // what the command wrote last ends as a question does
}

// NewRelay returns nil if none of the files is a terminal. If all are, the command has the user's terminal for itself; else what goes elsewhere
// stays as it is, and see [Relay.Partial].
func NewRelay(in, out, stderr *os.File) *Relay {
	var of [3]bool
	for i, f := range []*os.File{in, out, stderr} {
		of[i] = term.IsTerminal(int(f.Fd()))
	}
	switch {
	case of == [3]bool{}:
		return nil
	case of[1]:
	case of[2]:
		out = stderr
	default:
		out = in
	}
	if !of[0] {
		in = readable(out)
	}
	t := &Relay{in: in, out: out, of: of, aside: !of[0], tasks: make(chan func(), 8), done: make(chan struct{})}
	if err := unix.Pipe2(t.wake[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil
	}
	return t
}

// Size is the terminal's, in characters.
func (t *Relay) Size() (rows, cols uint16) {
	ws, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Row == 0 || ws.Col == 0 {
		return 24, 80
	}
	return ws.Row, ws.Col
}

// Foreground reports whether we may read and change the terminal without being
// stopped for it.
func (t *Relay) Foreground() bool { return inForeground(t.out) }

// Start begins to move bytes. The process keeps its own descriptor.
func (t *Relay) Start(p hypervisor.Process) error {
	file := p.Terminal()
	if file == nil && t.Partial() {
		return nil // a runtime that copies the files
	}
	if file == nil {
		return errors.New("the command has no pseudo-terminal")
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var dupErr error
	if err := conn.Control(func(fd uintptr) {
		t.master, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil {
		return err
	}
	if dupErr != nil {
		return dupErr
	}
	if err := unix.SetNonblock(t.master, true); err != nil {
		unix.Close(t.master)
		return err
	}
	t.mu.Lock()
	t.proc, t.started = p, true
	t.mu.Unlock()
	t.Enter()
	go t.loop()
	return nil
}

// Enter makes the user's terminal raw, if it is ours to change; in the
// background the goroutine waits until it is.
func (t *Relay) Enter() {
	t.mu.Lock()
	if t.started && t.saved == nil {
		t.away = !t.Foreground()
		if !t.away && !t.Partial() {
			if saved, err := term.MakeRaw(int(t.in.Fd())); err == nil {
				t.saved = saved
			}
		}
	}
	t.mu.Unlock()
	t.Resize()
	t.look()
}

// look makes the goroutine see what has changed.
func (t *Relay) look() {
	_, _ = unix.Write(t.wake[1], []byte{0}) // a full pipe wakes as well
}

// Leave gives the terminal back as it was.
func (t *Relay) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.modes.restore(t.in)
	if t.saved != nil {
		_ = term.Restore(int(t.in.Fd()), t.saved) // gone if the terminal is
		t.saved = nil
	}
}

// Rest shows what the command, which has stopped, wrote last, and gives the terminal back as it was until [Relay.Enter].
func (t *Relay) Rest() {
	shown := make(chan struct{})
	t.do(func() {
		defer close(shown)
		buf := make([]byte, 32<<10)
		for end := time.Now().Add(drainMost); !t.hungUp && time.Now().Before(end); {
			fds := []unix.PollFd{{Fd: int32(t.master), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, pollTimeout(drainQuiet))
			if n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
			if n > 0 {
				t.fromCommand(buf)
			}
		}
	})
	select {
	case <-shown:
	case <-t.done: // the command has ended
	}
	t.Leave()
}

// Resize tells the command the terminal's size.
func (t *Relay) Resize() {
	t.mu.Lock()
	p := t.proc
	t.mu.Unlock()
	if p != nil {
		_ = p.Resize(t.Size()) // fails only when the command has ended
	}
}

// redraw makes a full-screen program paint everything again: it hears of a
// new size twice.
func (t *Relay) redraw() {
	rows, cols := t.Size()
	_ = t.proc.Resize(max(rows-1, 1), cols)
	_ = t.proc.Resize(rows, cols)
}

// do runs f on the goroutine, if need be once that has started; not any more
// when it has ended.
func (t *Relay) do(f func()) {
	select {
	case t.tasks <- f:
		t.look()
	case <-t.done:
	}
}

// Stop shows what the command wrote last and gives the terminal back.
func (t *Relay) Stop() {
	t.once.Do(func() {
		t.mu.Lock()
		started := t.started
		t.mu.Unlock()
		if started {
			t.do(func() { t.ending = time.Now().Add(drainMost) })
			<-t.done
			unix.Close(t.master)
		}
		t.Leave()
	})
}

// Ask puts a question on the user's terminal while the command's output waits.
func (t *Relay) Ask(q PromptQuestion, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	result := make(chan given, 1)
	t.do(func() {
		a, answered := prompt(descriptorKeys(t.in.Fd()), t.out, q, gone)
		t.redraw()
		result <- given{a, answered}
	})
	return await(result, t.done, gone)
}

func (t *Relay) loop() {
	defer close(t.done)
	buf := make([]byte, 32<<10)
	for !t.finished() {
		fds := t.wanted()
		wait := time.Duration(-1)
		switch {
		case !t.ending.IsZero():
			wait = drainQuiet
		case t.isAway(), t.Partial() && t.in != nil:
			wait = awayTick
		}
		n, err := unix.Poll(fds, pollTimeout(wait))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if n == 0 && wait == drainQuiet {
			return // silent since the command's end
		}
		if wait == awayTick && t.isAway() && t.Foreground() {
			t.Enter()
			if t.Returned != nil {
				t.Returned()
			}
		}
		t.follow()
		if n <= 0 {
			continue
		}
		if fds[0].Revents != 0 {
			t.runTasks()
			continue // they may have changed what we wait for
		}
		if fds[1].Revents&(unix.POLLIN|unix.POLLHUP|unix.POLLERR) != 0 {
			t.fromCommand(buf)
		}
		if fds[1].Revents&unix.POLLOUT != 0 {
			t.send()
		}
		if fds[2].Revents != 0 && t.mayRead() { // another program may have taken to single keys while we waited
			t.fromUser(buf)
		}
	}
}

// pollTimeout is d in milliseconds, -1 for ever.
func pollTimeout(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int(d.Milliseconds())
}

func (t *Relay) isAway() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.away
}

func (t *Relay) finished() bool {
	return !t.ending.IsZero() && (t.hungUp || time.Now().After(t.ending))
}

// wanted is what to wait for: tasks, the command, the user.
func (t *Relay) wanted() []unix.PollFd {
	fds := []unix.PollFd{
		{Fd: int32(t.wake[0]), Events: unix.POLLIN},
		{Fd: int32(t.master), Events: unix.POLLIN},
		{Fd: -1, Events: unix.POLLIN},
	}
	if t.in != nil {
		fds[2].Fd = int32(t.in.Fd())
	}
	if t.hungUp {
		fds[1].Fd = -1
	}
	if len(t.toCommand) > 0 {
		fds[1].Events |= unix.POLLOUT
	}
	// In the background a read would stop us.
	if t.inClosed || len(t.toCommand) > 0 || !t.ending.IsZero() || !t.Foreground() || !t.mayRead() {
		fds[2].Fd = -1
	}
	return fds
}

func (t *Relay) runTasks() {
	var drop [64]byte
	_, _ = unix.Read(t.wake[0], drop[:])
	for {
		select {
		case f := <-t.tasks:
			f()
		default:
			return
		}
	}
}

func (t *Relay) fromCommand(buf []byte) {
	n, err := unix.Read(t.master, buf)
	if n > 0 {
		_, _ = t.out.Write(t.modes.unechoed(buf[:n])) // a lost terminal comes as HUP
		t.question = isQuestion(buf[:n])
		return
	}
	if err != nil && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) {
		return
	}
	t.hungUp = true
}

func (t *Relay) fromUser(buf []byte) {
	n, err := unix.Read(int(t.in.Fd()), buf)
	if t.Partial() {
		t.fromLine(buf, n, err)
		return
	}
	if n > 0 {
		t.toCommand = append(t.toCommand, buf[:n]...)
		t.send()
		return
	}
	if err == nil || (!errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)) {
		t.inClosed = true
	}
}

func (t *Relay) send() {
	n, err := unix.Write(t.master, t.toCommand)
	if n > 0 {
		t.toCommand = t.toCommand[n:]
	}
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		t.toCommand = nil
	}
}
