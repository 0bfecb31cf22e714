//go:build !linux || portable

package console

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/codeagent/sandbox/hypervisor"
)

// errNoKeys is the end of a terminal.
var errNoKeys = errors.New("the terminal is gone")

// Relay connects the user's terminal with that of the command, as the one for Linux does, by what every system has. Commands run in a virtual machine
// here: none has a terminal that is only some of its files. One goroutine reads the user's keys and runs the prompts, another writes what the command
// writes, and waits while a question is on the screen.
type Relay struct {
	in, out *os.File
	keys    *keyboard
	// Returned, if it is set before Start, is called when a job that was in the background has come to the front. It must not block.
	Returned func()

	mu         sync.Mutex // guards what follows
	restore    func()     // gives the terminal back as it was; nil: it is as it was
	proc       hypervisor.Process
	away       bool   // in the background
	rows, cols uint16 // what the command was told last

	closed bool // nobody reads keys any more

	screen  sync.Mutex     // who has it writes
	command *os.File       // our own end of the command's terminal, set by Start
	busy    atomic.Bool    // the command has not taken yet what was typed
	sending sync.WaitGroup // for that
	tasks   chan func()
	typed   chan struct{} // closed when the goroutine that reads keys has ended
	shown   chan struct{} // closed when all output is written
	end     time.Time     // when to write no more, set before ending
	ending  atomic.Bool
	once    sync.Once
}

// NewRelay returns nil unless all of the files are a terminal.
func NewRelay(in, out, stderr *os.File) *Relay {
	for _, f := range []*os.File{in, out, stderr} {
		if !term.IsTerminal(int(f.Fd())) {
			return nil
		}
	}
	k, err := newKeyboard(in)
	if err != nil {
		return nil
	}
	return &Relay{in: in, out: out, keys: k, tasks: make(chan func(), 8), typed: make(chan struct{}), shown: make(chan struct{})}
}

// Size is the terminal's, in characters.
func (t *Relay) Size() (rows, cols uint16) {
	w, h, err := term.GetSize(int(t.out.Fd()))
	if err != nil || w <= 0 || h <= 0 || w > 1<<16-1 || h > 1<<16-1 {
		return 24, 80
	}
	return uint16(h), uint16(w)
}

// Foreground reports whether we may read and change the terminal without being
// stopped for it.
func (t *Relay) Foreground() bool { return inForeground(t.out) }

// Of says of no file that it is the terminal and others are not.
func (*Relay) Of() [3]bool { return [3]bool{} }

// Partial reports false: the terminal is all of the user's files.
func (*Relay) Partial() bool { return false }

// Hold has nothing to do: somebody else asks only while the relay is in the background, and reads nothing.
func (*Relay) Hold() (release func()) { return func() {} }

// Start begins to move bytes.
func (t *Relay) Start(p hypervisor.Process) error {
	file := p.Terminal()
	if file == nil {
		return errors.New("the command has no pseudo-terminal")
	}
	own, err := ownEnd(file)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.proc, t.command = p, own
	t.mu.Unlock()
	t.Enter()
	go t.fromUser(own)
	go t.fromCommand(own)
	return nil
}

// Enter makes the user's terminal raw, if it is ours to change; in the
// background the goroutine waits until it is.
func (t *Relay) Enter() {
	t.mu.Lock()
	if t.proc != nil && t.restore == nil && !t.ending.Load() {
		if t.away = !t.Foreground(); !t.away {
			if restore, err := raw(t.in, t.out); err == nil {
				t.restore = restore
			}
		}
	}
	t.mu.Unlock()
	t.Resize()
	t.awake()
}

// awake makes the goroutine that reads keys look at what has changed.
func (t *Relay) awake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.keys.awake()
	}
}

// Leave gives the terminal back as it was.
func (t *Relay) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restore != nil {
		t.restore()
		t.restore = nil
	}
}

// Resize tells the command the terminal's size.
func (t *Relay) Resize() {
	rows, cols := t.Size()
	t.mu.Lock()
	p := t.proc
	changed := p != nil && (t.rows != rows || t.cols != cols)
	t.rows, t.cols = rows, cols
	t.mu.Unlock()
	if changed {
		_ = p.Resize(rows, cols) // fails only when the command has ended
	}
}

// redraw makes a full-screen program paint everything again: it hears of a
// new size twice.
func (t *Relay) redraw() {
	rows, cols := t.Size()
	_ = t.proc.Resize(max(rows-1, 1), cols)
	_ = t.proc.Resize(rows, cols)
}

// Stop shows what the command wrote last and gives the terminal back.
func (t *Relay) Stop() {
	t.once.Do(func() {
		t.mu.Lock()
		own := t.command
		t.mu.Unlock()
		if own != nil {
			t.end = time.Now().Add(drainMost)
			t.ending.Store(true)
			_ = own.SetReadDeadline(time.Now().Add(drainQuiet)) // it takes deadlines: see ownEnd
			t.awake()
			<-t.typed
			<-t.shown
			_ = own.Close() // what was in it is read; and what is still written to it ends
			t.sending.Wait()
		}
		t.Leave()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.closed = true
		t.keys.close()
	})
}

// Ask puts a question on the user's terminal while the command's output waits.
func (t *Relay) Ask(q PromptQuestion, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	result := make(chan given, 1)
	ask := func() {
		t.screen.Lock()
		defer t.screen.Unlock()
		a, answered := prompt(t.keys, t.out, q, gone)
		t.redraw()
		result <- given{a, answered}
	}
	select {
	case t.tasks <- ask:
		t.awake()
	case <-t.typed:
		return PromptAnswer{}, false
	}
	return await(result, t.typed, gone)
}

// fromUser gives the command what is typed, until it has ended.
func (t *Relay) fromUser(command *os.File) {
	defer close(t.typed)
	buf := make([]byte, 4<<10)
	gone := false
	for !t.ending.Load() {
		t.runTasks()
		front := t.front()
		wait := time.Duration(-1)
		switch {
		case !front:
			wait = awayTick
		case sizeTick > 0:
			t.Resize()
			wait = sizeTick
		}
		if !t.keys.wait(wait, front && !gone && !t.busy.Load()) {
			continue
		}
		n, err := t.keys.read(buf)
		gone = err != nil
		if n > 0 {
			t.send(command, bytes.Clone(buf[:n]))
		}
	}
}

// send writes to a command that may not read. No more keys are read until it has.
func (t *Relay) send(command *os.File, typed []byte) {
	t.busy.Store(true)
	t.sending.Go(func() {
		_, _ = command.Write(typed) // fails when the command has ended
		t.busy.Store(false)
		t.awake()
	})
}

// front reports whether the terminal is ours to read, and enters it when it has become that.
func (t *Relay) front() bool {
	front := t.Foreground()
	t.mu.Lock()
	back := t.away && front
	t.mu.Unlock()
	if back {
		t.Enter()
		if t.Returned != nil {
			t.Returned()
		}
	}
	return front
}

func (t *Relay) runTasks() {
	for {
		select {
		case f := <-t.tasks:
			f()
		default:
			return
		}
	}
}

// fromCommand shows what the command writes. After its end, until it is silent: something else may hold its terminal open.
func (t *Relay) fromCommand(command *os.File) {
	defer close(t.shown)
	buf := make([]byte, 32<<10)
	for {
		n, err := command.Read(buf)
		if n > 0 {
			t.screen.Lock()
			_, _ = t.out.Write(buf[:n]) // a lost terminal comes as a signal
			t.screen.Unlock()
		}
		if err != nil {
			return
		}
		if t.ending.Load() {
			if time.Now().After(t.end) {
				return
			}
			_ = command.SetReadDeadline(time.Now().Add(drainQuiet)) // as in Stop
		}
	}
}
