//go:build unix

package mcp

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxPipe is how much is read of a pipe at once, in bytes, since it may be
// written to without end: what a pipe can hold on Linux (fs.pipe-max-size).
const maxPipe = 1 << 20

// stream is a pipe whose other end a command writes to.
type stream struct {
	r, w *os.File
	conn syscall.RawConn // of r
	done chan struct{}   // closed when nothing is copied any more

	mu    sync.Mutex // reading and passing on go together
	to    io.Writer
	small [512]byte // enough for most commands
	large []byte
	over  bool // the pipe's end was read, or nobody cares any more
}

// newStream makes a pipe that is copied, until finish is called, to the writers
// that into names. Until then nothing may be written to it.
func newStream() (*stream, error) {
	r, w, err := pipe()
	if err != nil {
		return nil, err
	}
	conn, err := r.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	s := &stream{r: r, w: w, conn: conn, to: io.Discard, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for s.conn.Read(s.take) == nil && !s.ended() { // an error is a deadline
		}
		if s.ended() {
			_ = s.r.Close() // nobody needs it
		}
	}()
	return s, nil
}

// into says where the output goes. The writers must not fail.
func (s *stream) into(to ...io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = io.MultiWriter(to...)
}

// take passes on what the pipe holds at this moment. It reports whether that was
// its end, or a lot.
func (s *stream) take(fd uintptr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf := s.small[:]
	for total := 0; !s.over && total < maxPipe; {
		n, err := syscall.Read(int(fd), buf)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false
		case err != nil || n <= 0:
			s.over = true
		default:
			_, _ = s.to.Write(buf[:n])
			total += n
			if s.large == nil && n == len(buf) {
				s.large = make([]byte, 32<<10)
			}
			if s.large != nil {
				buf = s.large
			}
		}
	}
	return true
}

func (s *stream) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// finish ends the copying when all has been read. What a process that was left
// running holds open is not waited for long. It reads itself: the goroutine that
// does until then may get no time for a while.
func (s *stream) finish() error {
	err := s.w.Close()
	if s.now(); s.ended() {
		return err
	}
	err = errors.Join(err, s.r.SetReadDeadline(time.Now().Add(drainTime)))
	<-s.done
	s.now()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	if cerr := s.r.Close(); !errors.Is(cerr, os.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// again reads what is left when nobody but us has the pipe any more, and reports
// whether another command can write to it. If not, finish it.
func (s *stream) again() bool {
	s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !asNew(s.w) {
		return false
	}
	s.to, s.large = io.Discard, nil
	return true
}

// now is take for who does not wait.
func (s *stream) now() { _ = s.conn.Control(func(fd uintptr) { s.take(fd) }) }
