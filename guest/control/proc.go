package control

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// Proc is a running command, seen from the host. Methods are safe for
// concurrent use.
type Proc struct {
	host          *Host
	id            int64
	wantsTerminal bool
	stopped       func(signal int) // nil: nobody asked

	once     sync.Once     // finish
	started  chan struct{} // closed when it runs
	ended    chan struct{} // closed when status and err are set
	status   Status
	err      error
	terminal *os.File // set before started is closed
	pid      int      // so is this

	// Data by messages only.
	stdin io.Reader
	out   map[string]io.Writer
	// outEnds is told of the end of output that comes before that of a connection; nil for commands.
	outEnds func()
	drain   chan struct{} // closed when all output is written
	mu      sync.Mutex
	cond    *sync.Cond
	queue   []chunk // bounded by Window
	window  int     // bytes of stdin that may be sent
	over    bool
	ending  bool     // the end of output has come
	inner   *os.File // our end of a terminal made of a socket pair
}

type chunk struct{ stream, data string }

func newProc(h *Host, e Exec) *Proc {
	p := &Proc{
		host: h, id: e.ID, wantsTerminal: e.TTY != nil, stopped: e.Stopped,
		started: make(chan struct{}), ended: make(chan struct{}), drain: make(chan struct{}),
		window: Window,
	}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// prepare decides how data travels; it returns the files to send with exec.
func (p *Proc) prepare(e Exec) (files []*os.File, err error) {
	if p.host.link.PassesFDs() {
		close(p.drain) // no output comes by messages
		if e.TTY != nil && !e.TTY.Partial() {
			return e.Further, nil
		}
		files = []*os.File{e.Stdin, e.Stdout, e.Stderr}
		for i, f := range files {
			if f != nil && (e.TTY == nil || e.TTY.Of&(1<<i) == 0) {
				continue
			}
			if files[i], err = p.host.devNull(); err != nil {
				return nil, err
			}
		}
		return append(files, e.Further...), nil
	}
	if e.TTY != nil {
		if p.terminal, p.inner, err = TerminalPair(); err != nil {
			return nil, err
		}
		p.stdin, p.out = p.inner, map[string]io.Writer{Stdout: p.inner}
	} else {
		if e.Stdin != nil {
			p.stdin = e.Stdin
		}
		p.out = make(map[string]io.Writer, 2)
		if e.Stdout != nil {
			p.out[Stdout] = e.Stdout
		}
		if e.Stderr != nil {
			p.out[Stderr] = e.Stderr
		}
	}
	go p.writeOutput()
	return nil, nil
}

// PID is the number of its first process, as the guest numbers it and says; 0 if it does not.
func (p *Proc) PID() int { return p.pid }

// pump starts forwarding stdin, once the command runs.
func (p *Proc) pump() {
	if p.stdin != nil {
		go p.readStdin()
	}
}

// finish sets the result; the first call wins.
func (p *Proc) finish(st Status, err error) {
	p.once.Do(func() {
		p.status, p.err = st, err
		p.mu.Lock()
		p.over = true
		p.cond.Broadcast()
		p.mu.Unlock()
		close(p.ended)
	})
}

// output queues data from the guest; the window bounds the queue.
func (p *Proc) output(stream, data string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.out == nil || data == "" && (p.outEnds == nil || p.ending):
		return
	case data == "":
		p.ending = true
	}
	p.queue = append(p.queue, chunk{stream, data})
	p.cond.Broadcast()
}

func (p *Proc) writeOutput() {
	defer close(p.drain)
	defer func() {
		if p.inner != nil {
			_ = p.inner.Close()
		}
	}()
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.over {
			p.cond.Wait()
		}
		if len(p.queue) == 0 {
			p.mu.Unlock()
			return
		}
		c := p.queue[0]
		p.queue = p.queue[1:]
		over := p.over
		p.mu.Unlock()
		if c.data == "" {
			p.outEnds()
			continue
		}
		if w := p.out[c.stream]; w != nil {
			if _, err := io.WriteString(w, c.data); err != nil {
				p.out[c.stream] = nil // the reader has gone; swallow the rest
			}
		}
		if !over {
			_ = p.host.send(&Message{Type: TypeAck, ID: p.id, Bytes: len(c.data)}) // fails only when the command has ended
		}
	}
}

// credit gives back window for stdin.
func (p *Proc) credit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window += n
	p.cond.Broadcast()
}

// readStdin forwards stdin. It ends with the command, or one read later: a
// blocked read of the caller's file is not ours to interrupt.
func (p *Proc) readStdin() {
	buf := make([]byte, MaxData)
	for {
		p.mu.Lock()
		for p.window < len(buf) && !p.over {
			p.cond.Wait()
		}
		over := p.over
		p.mu.Unlock()
		if over {
			return
		}
		n, err := p.stdin.Read(buf)
		if n > 0 {
			p.mu.Lock()
			p.window -= n
			p.mu.Unlock()
			if p.host.send(&Message{Type: TypeStdin, ID: p.id, Data: Text(buf[:n])}) != nil {
				return
			}
		}
		if errors.Is(err, errReset) {
			return
		}
		if err != nil {
			_ = p.host.send(&Message{Type: TypeStdinClose, ID: p.id}) // the command may have ended
			return
		}
	}
}

// Terminal returns the host's end of the command's terminal, or nil.
func (p *Proc) Terminal() *os.File { return p.terminal }

// Signal sends a signal to the command's process group.
func (p *Proc) Signal(sig int) error {
	return p.host.send(&Message{Type: TypeSignal, ID: p.id, Signal: sig})
}

// Resize sets the terminal's size.
func (p *Proc) Resize(rows, cols uint16) error {
	if p.terminal != nil && p.inner == nil { // the master itself is here
		return setTerminalSize(p.terminal, rows, cols)
	}
	return p.host.send(&Message{Type: TypeResize, ID: p.id, Rows: rows, Cols: cols})
}

// Cancel sends TERM to everything in the command's session, and KILL after
// grace. The result comes by Wait.
func (p *Proc) Cancel(grace time.Duration) error {
	err := p.host.send(&Message{Type: TypeCancel, ID: p.id, GraceMS: grace.Milliseconds()})
	if errors.Is(err, ErrSequence) {
		return nil // it has ended by itself
	}
	return err
}

// Wait returns when the command has ended and its output is written. An error
// wraps ErrClosed or is the context's. The terminal stays open: what it still
// holds can be read to its end.
func (p *Proc) Wait(ctx context.Context) (Status, error) {
	for _, ch := range []chan struct{}{p.ended, p.drain} {
		select {
		case <-ch:
		case <-ctx.Done():
			return Status{}, ctx.Err()
		}
	}
	return p.status, p.err
}
