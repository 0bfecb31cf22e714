package control

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
)

// firstStream is the id of the first connection. Commands have the caller's ids, which do
// not come so far.
const firstStream = 1 << 59

// Stream is a connection to a port of the guest's own loopback whose bytes pass through
// the channel. Its methods are safe for concurrent use.
type Stream struct {
	proc *Proc
	in   *io.PipeReader // what the guest sends
	out  *io.PipeWriter // what it gets

	closed atomic.Bool
}

// errReset is how a stream ends that was not ended in order.
var errReset = errors.New("control: the connection was reset")

// Connect has the guest connect to a TCP port of its own loopback, over a channel that does
// not pass descriptors: the bytes come by messages, with the windows that a command's have.
// The error wraps ErrClosed, is the context's, or the guest's own (a *StartError).
func (h *Host) Connect(ctx context.Context, port uint16) (*Stream, error) {
	if h.link.PassesFDs() {
		return nil, errors.ErrUnsupported
	}
	p := newProc(h, Exec{ID: firstStream + h.streams.Add(1)})
	toGuest, out := io.Pipe()
	in, fromGuest := io.Pipe()
	p.stdin, p.out, p.outEnds = toGuest, map[string]io.Writer{Stdout: fromGuest}, func() { _ = fromGuest.Close() }
	go p.writeOutput()
	go func() { // it is reset, unless its end came before
		<-p.drain
		why := errReset
		if err := p.err; err != nil {
			why = err
		}
		_ = fromGuest.CloseWithError(why)
		_ = toGuest.CloseWithError(why)
	}()
	s := &Stream{proc: p, in: in, out: out}
	made := make(chan error, 1)
	go func() { // a guest that stands still takes no message
		made <- h.launch(ctx, p, func() error { return h.send(&Message{Type: TypeExec, ID: p.id, Port: port, Stdin: true}) })
	}()
	select {
	case err := <-made:
		if err != nil {
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		go func() {
			if <-made == nil {
				_ = s.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Read implements [io.Reader].
func (s *Stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// Write implements [io.Writer].
func (s *Stream) Write(b []byte) (int, error) {
	n, err := s.out.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = os.ErrClosed
	}
	return n, err
}

// CloseWrite tells the guest that nothing more comes.
func (s *Stream) CloseWrite() error { return s.out.Close() }

// Close ends the connection: in order if both directions have ended, else the guest gets a
// reset. It does not wait for a guest that stands still.
func (s *Stream) Close() error {
	_ = s.out.CloseWithError(errReset) // unless its end was told
	_ = s.in.Close()
	if !s.closed.Swap(true) {
		go func() { _ = s.proc.Cancel(0) }() // the guest may have ended
	}
	return nil
}
