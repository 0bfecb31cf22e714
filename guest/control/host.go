package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what is left of a channel after its end.
var ErrClosed = errors.New("control: the guest has ended")

// NoDirectory is how the Reason of a [StartError] begins if the working directory is
// why a command did not start.
const NoDirectory = "working directory "

// StartError says that the guest could not start a command.
type StartError struct {
	ExitCode int // 126 or 127
	Reason   string
}

func (e *StartError) Error() string { return e.Reason }

// Status is how a command ended.
type Status struct {
	Code, Signal int
	Duration     time.Duration
	Alone        bool // no other process was left in the guest, it says
}

// Exec describes a command to [Host.Start].
type Exec struct {
	ID      int64
	Argv    []string
	Command string // "sh -c", when Argv is empty
	Env     []string
	Dir     string
	TTY     *TTY
	Limits  *Limits
	// Stopped, if the TTY asks for that, is called with the signal when the command has been stopped. It must not block.
	Stopped func(signal int)
	// Nil files read as empty and swallow what is written. Ignored with TTY.
	Stdin, Stdout, Stderr *os.File
	// Further are files that the command has besides, as the numbers in Numbers, and Ignored the signals that it ignores at its start.
	// Without a channel that passes descriptors there are none of these files.
	Further []*os.File
	Numbers []int
	Ignored []int
	// Own: Argv are arguments of the guest's own program.
	Own bool
}

// Host is the host's end of a control channel. Methods are safe for concurrent
// use.
type Host struct {
	link    *Link
	problem func(error)
	silence time.Duration // see maxSilence
	hello   chan *Message
	refused chan string   // why there will be no hello; room for one
	inside  chan Listener // room for all that may come
	done    chan struct{}

	streams atomic.Int64 // so far

	sending sync.Mutex // keeps exec messages in the order of env
	env     []string   // of the last one that brought it

	mu       sync.Mutex
	state    *State
	procs    map[int64]*Proc
	requests map[int64]*request
	next     int64    // the last request's number
	null     *os.File // opened when it is first needed
	err      error    // set before done is closed
}

// NewHost starts reading from the connection, which it then owns. problem is
// called for everything a guest should not have sent; it may be nil and must
// not block.
func NewHost(c Conn, problem func(error)) *Host {
	if problem == nil {
		problem = func(error) {}
	}
	h := &Host{
		link:    NewLink(c),
		problem: problem,
		silence: maxSilence,
		hello:   make(chan *Message, 1),
		refused: make(chan string, 1),
		inside:  make(chan Listener, 1+len(Agents())),
		done:    make(chan struct{}),
		state:   NewState(),
		procs:   make(map[int64]*Proc),

		requests: make(map[int64]*request),
	}
	go h.read()
	return h
}

// Hello waits for the guest's first message and checks its version. A guest that
// cannot set itself up says why in its place: a *[RefusedError].
func (h *Host) Hello(ctx context.Context) (warnings []string, err error) {
	select {
	case m := <-h.hello:
		if m.Version != Version {
			return nil, fmt.Errorf("control: the guest speaks version %d, we speak %d", m.Version, Version)
		}
		return m.Warnings, nil
	case why := <-h.refused:
		return nil, &RefusedError{why}
	case <-h.done:
		select {
		case why := <-h.refused: // it came before the end
			return nil, &RefusedError{why}
		default:
			return nil, h.Err()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// RefusedError is why a guest, in its own words, cannot set itself up.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("control: the guest cannot set itself up: %.500q", e.Why)
}

// Done is closed when the channel has ended.
func (h *Host) Done() <-chan struct{} { return h.done }

// Err returns why the channel ended, wrapping ErrClosed, or nil before its end.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Close ends the channel; running commands are lost.
func (h *Host) Close() error { return h.link.Close() }

// Listener is a descriptor that the guest says is a listener for programs inside.
type Listener struct {
	Agent string // which agent they find there; empty: they ask for steps
	File  *os.File
}

// Inside gives the listeners that the guest sends. Whoever takes one closes its file.
func (h *Host) Inside() <-chan Listener { return h.inside }

// Shutdown asks the guest to end.
func (h *Host) Shutdown() error { return h.send(&Message{Type: TypeShutdown}) }

// RollbackNotify tells the guest that a step was rolled back.
func (h *Host) RollbackNotify(step int64) error {
	return h.send(&Message{Type: TypeRollbackNotify, StepID: step})
}

// SetClock tells a machine what time it is, after it stood still. A jail has the
// host's clock and ignores it.
func (h *Host) SetClock(now time.Time) error {
	return h.send(&Message{Type: TypeClock, TimeNS: now.UnixNano()})
}

// Pause says whether the guest stands still, because somebody has paused its
// machine. Messages wait for it then, however long.
func (h *Host) Pause(paused bool) { h.link.Pause(paused) }

// send checks the order, then writes.
func (h *Host) send(m *Message, files ...*os.File) error {
	h.mu.Lock()
	err := h.err
	if err == nil {
		err = h.state.Sent(m)
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	if err := h.link.Send(m, files...); err != nil {
		if errors.Is(err, ErrTooLarge) {
			return err
		}
		_ = h.link.Close() // a half-written line cannot be repaired
		return fmt.Errorf("%w: %v", ErrClosed, err)
	}
	return nil
}

// read is the one goroutine that receives.
func (h *Host) read() {
	for {
		m, files, err := h.link.Receive()
		if err != nil {
			if recoverable(err) {
				h.problem(err)
				continue
			}
			h.finish(err)
			return
		}
		if err := h.receive(m, files); err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			h.problem(err)
		}
	}
}

// receive handles one message. Descriptors are left to the caller on error.
func (h *Host) receive(m *Message, files []*os.File) error {
	h.mu.Lock()
	p := h.procs[m.ID]
	if len(files) != 0 && !h.mayBring(m, p, len(files)) {
		h.mu.Unlock()
		return fmt.Errorf("%w: descriptors with %s", ErrSequence, m.Type)
	}
	var terminal, connection *os.File
	var err error
	switch {
	case len(files) == 1 && (m.Type == TypeDone || m.Type == TypeInside):
		connection = files[0]
	case len(files) == 1:
		terminal, err = asTerminal(files[0])
	}
	if err == nil {
		err = h.state.Received(m)
	}
	if err == nil && (m.Type == TypeStepCompleted || m.Type == TypeStartFailed) {
		delete(h.procs, m.ID)
	}
	h.mu.Unlock()
	if err != nil {
		_ = terminal.Close() // of a nil file is an error only
		return err
	}
	switch m.Type {
	case TypeHello:
		h.hello <- m // State lets one pass
	case TypeError:
		if !h.greeted() {
			select {
			case h.refused <- m.Error:
				return nil
			default:
			}
		}
		return fmt.Errorf("control: the guest reports: %.500q", m.Error)
	case TypeStepStarted:
		if terminal != nil {
			p.terminal = terminal
		}
		p.pid = m.PID
		close(p.started)
	case TypeStartFailed:
		p.finish(Status{}, &StartError{ExitCode: *m.ExitCode, Reason: m.Error})
	case TypeOutput:
		p.output(m.Stream, string(m.Data))
	case TypeStopped:
		if p.stopped != nil {
			p.stopped(m.Signal)
		}
	case TypeAck:
		p.credit(m.Bytes)
	case TypeInside:
		h.inside <- Listener{m.Agent, connection} // State lets one of each pass
	case TypeDone:
		h.answer(m, connection)
	case TypeStepCompleted:
		st := Status{Code: *m.ExitCode, Signal: m.Signal, Duration: max(0, time.Duration(m.DurationNS)), Alone: m.Alone}
		p.finish(st, nil)
	}
	return nil
}

// mayBring tells whether n descriptors may come with a message: a terminal that was
// asked for, or a connection. It is called with h.mu locked.
func (h *Host) mayBring(m *Message, p *Proc, n int) bool {
	switch m.Type {
	case TypeInside:
		return n == 1
	case TypeStepStarted:
		return n == 1 && p != nil && p.wantsTerminal
	case TypeDone:
		r := h.requests[m.Request]
		return n == 1 && r != nil && r.file
	}
	return false
}

func (h *Host) greeted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.hello
}

func (h *Host) finish(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		err = ErrClosed
	} else {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	_ = h.link.Close()
	h.mu.Lock()
	h.err = err
	procs := h.procs
	h.procs = nil
	_ = h.null.Close() // of a nil file is an error only
	h.mu.Unlock()
	close(h.done)
	for _, p := range procs {
		p.finish(Status{}, err)
	}
}

// Start runs a command and returns when the guest says that it runs. The error
// is or wraps *StartError, ErrTooLarge (arguments and environment exceed what a
// message holds), ErrSequence (the id is in use), ErrClosed or the context's;
// in the last case the command is killed, and its end waited for, though not for
// ever: see maxSilence.
func (h *Host) Start(ctx context.Context, e Exec) (*Proc, error) {
	p := newProc(h, e)
	m := &Message{
		Type: TypeExec, ID: e.ID, Command: Text(e.Command), Argv: texts(e.Argv),
		Cwd: Text(e.Dir), TTY: e.TTY, Limits: e.Limits, Stdin: e.TTY != nil || e.Stdin != nil,
		Ignored: e.Ignored, Own: e.Own,
	}
	if h.link.PassesFDs() {
		m.Further = e.Numbers
	}
	files, err := p.prepare(e)
	if err != nil {
		return nil, err
	}
	if err := h.launch(ctx, p, func() error { return h.sendExec(m, e.Env, files) }); err != nil {
		return nil, err
	}
	return p, nil
}

// launch sends what starts a command, or a connection, and returns when it runs.
func (h *Host) launch(ctx context.Context, p *Proc, send func() error) error {
	h.mu.Lock()
	err := h.err
	if err == nil {
		if _, dup := h.procs[p.id]; dup || p.id == 0 {
			err = fmt.Errorf("%w: command id %d is in use", ErrSequence, p.id)
		} else {
			h.procs[p.id] = p
		}
	}
	h.mu.Unlock()
	if err == nil {
		err = send()
		if errors.Is(err, ErrTooLarge) {
			h.forget(p.id)
		}
	}
	if err != nil {
		p.finish(Status{}, err)
		return err
	}
	select {
	case <-p.started:
	case <-p.ended:
	case <-ctx.Done():
		// It may be running already: then its caller ends it, with the time that it
		// has for that.
		soon := time.NewTimer(cancelledStart)
		defer soon.Stop()
		select {
		case <-p.started:
		case <-p.ended:
		case <-soon.C:
			p.giveUp()
			return ctx.Err()
		}
	}
	select {
	case <-p.started:
		p.pump()
		return nil
	default: // it ended without having run
		return p.err
	}
}

// cancelledStart is how long a start may go on that was cancelled.
const cancelledStart = 100 * time.Millisecond

// maxSilence is how long the end of a start that was cancelled is waited for. Under heavy load a guest answers within
// some seconds.
const maxSilence = 15 * time.Second

// giveUp kills a command that nobody will look at. It may run for a moment, and what
// it writes belongs to its caller: so the end is waited for, up to maxSilence. A guest that has not told of it then is
// stopped, broken or hostile, and the caller must be able to leave.
func (p *Proc) giveUp() {
	_ = p.Cancel(0)
	silent := time.NewTimer(p.host.silence)
	defer silent.Stop()
	select {
	case <-p.ended:
	case <-silent.C:
	}
	select {
	case <-p.started:
		_ = p.terminal.Close() // of a nil file is an error only
	default:
	}
}

// sendExec sends a command, with its environment only if that is not the same as
// before: it is most of the message, and seldom changes.
func (h *Host) sendExec(m *Message, env []string, files []*os.File) error {
	h.sending.Lock()
	defer h.sending.Unlock()
	m.EnvAgain = len(env) > 0 && slices.Equal(env, h.env)
	if m.EnvAgain {
		return h.send(m, files...)
	}
	m.Env = texts(env)
	err := h.send(m, files...)
	if err == nil && len(env) > 0 {
		h.env = slices.Clone(env)
	}
	return err
}

// devNull returns the null device, which stays open: opening it is slow, since
// Go asks whether it can be polled.
func (h *Host) devNull() (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	var err error
	if h.null == nil {
		h.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
	}
	return h.null, err
}

// forget takes back a command that was never sent.
func (h *Host) forget(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.procs, id)
	delete(h.state.cmds, id)
}

func texts(ss []string) []Text {
	out := make([]Text, len(ss))
	for i, s := range ss {
		out[i] = Text(s)
	}
	return out
}
