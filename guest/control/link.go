package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxFDs is how many descriptors may come with one message.
const maxFDs = 32

// firstFurther is the first number of a command's descriptors that is not one of the standard three, and lastFurther the last.
const firstFurther, lastFurther = 3, 1023

// Conn is a byte stream between host and guest.
type Conn interface {
	io.Reader
	io.Writer
	io.Closer
}

// FDConn is a Conn that carries file descriptors. They arrive no later than the
// first byte that they were sent with.
type FDConn interface {
	Conn
	// WriteFDs writes all of p and sends duplicates of the files with it.
	WriteFDs(p []byte, files []*os.File) error
	// TakeFDs returns the next n descriptors that have arrived, in order, or
	// false if there are fewer.
	TakeFDs(n int) ([]*os.File, bool)
}

// Link sends and receives messages on a Conn. Send may be called concurrently;
// Receive by one goroutine.
type Link struct {
	conn Conn
	br   *bufio.Reader
	buf  []byte

	wmu sync.Mutex // serialises writes

	dmu     sync.Mutex // paused, and the deadline of writes
	paused  bool
	timeout time.Duration // of writes
}

// NewLink makes a Link, which then owns the connection.
func NewLink(c Conn) *Link {
	return &Link{conn: c, br: bufio.NewReaderSize(c, 32<<10), timeout: sendTimeout}
}

// PassesFDs reports whether messages can carry descriptors.
func (l *Link) PassesFDs() bool {
	_, ok := l.conn.(FDConn)
	return ok
}

// Close closes the connection; a blocked Receive returns.
func (l *Link) Close() error { return l.conn.Close() }

// sendTimeout bounds how long a peer that does not read may block a sender.
const sendTimeout = 10 * time.Second

// Pause says whether the peer stands still: then it is no failure that it does
// not read, and Send waits for as long as that lasts.
func (l *Link) Pause(paused bool) {
	l.dmu.Lock()
	l.paused = paused
	l.dmu.Unlock()
	l.limit()
}

// limit sets the deadline of the write that is under way, or comes.
func (l *Link) limit() {
	d, ok := l.conn.(interface{ SetWriteDeadline(time.Time) error })
	if !ok {
		return // not every stream has deadlines
	}
	l.dmu.Lock()
	defer l.dmu.Unlock()
	var at time.Time
	if !l.paused {
		at = time.Now().Add(l.timeout)
	}
	_ = d.SetWriteDeadline(at)
}

// Send writes a message. Files are sent with it (m.FDs is set) and stay the
// caller's. An error other than ErrTooLarge means that the channel is broken.
func (l *Link) Send(m *Message, files ...*os.File) error {
	m.FDs = len(files)
	p := m.appendTo(make([]byte, 0, 256))
	if len(p) > MaxMessage {
		return ErrTooLarge
	}
	p = append(p, '\n')
	l.wmu.Lock()
	defer l.wmu.Unlock()
	l.limit()
	if len(files) > 0 {
		c, ok := l.conn.(FDConn)
		if !ok {
			return errors.New("control: this channel carries no file descriptors")
		}
		return c.WriteFDs(p, files)
	}
	_, err := l.conn.Write(p)
	return err
}

// Receive returns the next message and the descriptors that came with it, which
// the caller owns. Errors that wrap ErrTooLarge, ErrMalformed or ErrUnknown
// concern one line only: call again. Any other error is the end.
func (l *Link) Receive() (*Message, []*os.File, error) {
	line, err := l.line()
	if err != nil {
		return nil, nil, err
	}
	m, err := Parse(line)
	if err != nil {
		return nil, nil, err
	}
	if m.FDs == 0 {
		return m, nil, nil
	}
	c, ok := l.conn.(FDConn)
	if !ok {
		return nil, nil, fmt.Errorf("%w: descriptors on a channel that carries none", ErrMalformed)
	}
	files, ok := c.TakeFDs(m.FDs)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %d descriptors announced, fewer came", ErrMalformed, m.FDs)
	}
	return m, files, nil
}

// recoverable reports whether the channel goes on after err.
func recoverable(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrMalformed) ||
		errors.Is(err, ErrUnknown) || errors.Is(err, ErrSequence)
}

// line returns the next line that is not empty; it is valid until the next
// call. A line beyond MaxMessage is read to its end and dropped.
func (l *Link) line() ([]byte, error) {
	for {
		l.buf = l.buf[:0]
		tooLarge := false
		for {
			part, err := l.br.ReadSlice('\n')
			full := errors.Is(err, bufio.ErrBufferFull)
			if err != nil && !full {
				return nil, err // a line without its newline is not a message
			}
			if len(l.buf)+len(part) > MaxMessage+1 {
				tooLarge = true
				l.buf = l.buf[:0]
			}
			if !tooLarge {
				l.buf = append(l.buf, part...)
			}
			if !full {
				break
			}
		}
		if tooLarge {
			return nil, ErrTooLarge
		}
		if p := l.buf[:len(l.buf)-1]; len(p) > 0 {
			return p, nil
		}
	}
}
