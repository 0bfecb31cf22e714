package stdio

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/frontend"
)

const (
	// chunk is how much output is collected before it is sent, unless it is
	// chunkAge old.
	chunk    = 4 << 10
	chunkAge = 50 * time.Millisecond
	// maxChunk is the most that one event carries.
	maxChunk = 32 << 10
)

// pipe is one stream of a command.
type pipe struct {
	r, w *os.File

	mu    sync.Mutex // ended, and the deadline of r
	ended bool
	kept  bool // r belongs to the goroutine that empties it
}

// deadline arms r unless the command has ended.
func (p *pipe) deadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = p.r.SetReadDeadline(t)
	}
}

// end wakes the reader for what is left.
func (p *pipe) end() {
	_ = p.w.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = p.r.SetReadDeadline(time.Unix(1, 0))
}

func (p *pipe) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// pipes are the streams of one command.
type pipes struct {
	stdin          *os.File // nil: none
	stdout, stderr *pipe
	feed           sync.WaitGroup
	feeder         *os.File
}

func openPipes(stdin string) (_ *pipes, err error) {
	p := &pipes{stdout: &pipe{}, stderr: &pipe{}}
	for _, out := range []*pipe{p.stdout, p.stderr} {
		if out.r, out.w, err = frontend.Pipe(); err != nil {
			p.close()
			return nil, err
		}
	}
	if stdin == "" {
		return p, nil
	}
	if p.stdin, p.feeder, err = os.Pipe(); err != nil {
		p.close()
		return nil, err
	}
	p.feed.Add(1)
	go func() {
		defer p.feed.Done()
		_, _ = io.WriteString(p.feeder, stdin) // a command need not read it all
		_ = p.feeder.Close()
	}()
	return p, nil
}

// commandEnded lets the relays finish: what the command wrote is in the pipes.
// A process that it left running may keep them open.
func (p *pipes) commandEnded() {
	if p.stdin != nil {
		_ = p.stdin.Close() // ends a feed that nobody reads
	}
	for _, out := range []*pipe{p.stdout, p.stderr} {
		out.end()
	}
}

// close gives everything back once the relays have returned.
func (p *pipes) close() {
	for _, out := range []*pipe{p.stdout, p.stderr} {
		if out.r != nil {
			_ = out.w.Close()
			if !out.kept {
				_ = out.r.Close()
			}
		}
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	if p.feeder != nil {
		_ = p.feeder.Close()
	}
	p.feed.Wait()
}

// relay sends what comes out of a pipe, and reads no further than the client
// does: a command that writes more than that waits. It returns when the command
// has ended and everything it wrote is queued. What processes that it left
// running write later is read, so that they do not block, and dropped.
func (r *run) relay(p *pipe, stream, event string) {
	select {
	case <-r.begun:
	case <-r.missed:
	case <-r.sess.ctx.Done():
	}
	out := &collector{run: r, stream: stream, event: event, buf: make([]byte, maxChunk)}
	for !p.hasEnded() {
		if out.n > 0 {
			p.deadline(time.Now().Add(chunkAge))
		} else {
			p.deadline(time.Time{})
		}
		n, err := p.r.Read(out.space())
		timeout := errors.Is(err, os.ErrDeadlineExceeded)
		out.add(n, timeout)
		if err != nil && !timeout {
			break // the last writer has closed it
		}
	}
	_ = p.r.SetReadDeadline(time.Time{})
	for {
		n, err := frontend.ReadNow(p.r, out.space())
		out.add(n, false)
		if n > 0 {
			continue
		}
		out.flush()
		if errors.Is(err, frontend.ErrEmpty) {
			p.kept = true
			stop := context.AfterFunc(r.sess.ctx, func() { _ = p.r.Close() })
			go func() {
				defer stop()
				_, _ = io.Copy(io.Discard, p.r)
				_ = p.r.Close()
			}()
		}
		return
	}
}

// collector makes events of output.
type collector struct {
	run           *run
	stream, event string
	buf           []byte
	n             int
	lost          bool // nobody is there to send to
}

func (c *collector) space() []byte { return c.buf[c.n:] }

// add takes n bytes that were read into space, and sends if there is enough or
// what there is has become old.
func (c *collector) add(n int, old bool) {
	_, _ = c.run.kept.Write(c.buf[c.n : c.n+n])
	c.n += n
	if c.n >= chunk || old {
		c.send(len(frontend.Whole(c.buf[:c.n])))
	}
}

// flush sends everything.
func (c *collector) flush() { c.send(c.n) }

func (c *collector) send(n int) {
	if n == 0 {
		return
	}
	if !c.lost {
		c.lost = c.run.output(c.event, c.stream, c.buf[:n]) != nil
	}
	c.n = copy(c.buf, c.buf[n:c.n])
}

func (r *run) output(event, stream string, data []byte) error {
	o := Output{Stream: stream, StepID: int64(r.step), RequestID: r.rq.id}
	o.Data, o.Encoding = text(data)
	return r.sess.s.emit(r.sess.ctx, outputClass, event, o)
}

// text is data as the protocol carries it.
func text(data []byte) (s, encoding string) {
	if utf8.Valid(data) {
		return string(data), ""
	}
	return base64.StdEncoding.EncodeToString(data), "base64"
}
