package shim

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// connection is one to a port of the loopback whose bytes pass through the channel.
type connection struct {
	s      *Server
	id     int64
	stdin  *inbox
	window *window
	sent   chan struct{} // closed when what the host sent was written, and its end

	mu      sync.Mutex
	f       *os.File // nil until it is made
	aborted bool
}

// connect makes a connection without blocking the channel: a listener may take its time.
func (s *Server) connect(m *control.Message) {
	c := &connection{s: s, id: m.ID, stdin: newInbox(), window: newWindow(), sent: make(chan struct{})}
	s.mu.Lock()
	_, dup := s.conns[m.ID]
	if !dup {
		s.conns[m.ID] = c
	}
	s.mu.Unlock()
	if dup {
		return
	}
	go c.run(m.Port)
}

// run answers, then passes bytes until both directions have ended, or one has failed.
func (c *connection) run(port uint16) {
	fd, err := connect(port)
	if err != nil {
		c.end()
		code := 1
		_ = c.s.link.Send(&control.Message{Type: control.TypeStartFailed, ID: c.id, ExitCode: &code, Error: err.Error()})
		return
	}
	c.open(os.NewFile(uintptr(fd), "connection"))
	_ = c.s.link.Send(&control.Message{Type: control.TypeStepStarted, ID: c.id}) // the reader notices a broken channel
	go c.stdin.pump(func(n int) {
		_ = c.s.link.Send(&control.Message{Type: control.TypeAck, ID: c.id, Bytes: n})
	})
	code := 0
	if err := c.receive(); err != nil {
		code = 1
		c.abort()
	}
	<-c.sent
	c.end()
	_ = c.s.link.Send(&control.Message{Type: control.TypeStepCompleted, ID: c.id, ExitCode: &code})
}

// end forgets the connection, and closes it if it was made.
func (c *connection) end() {
	c.s.mu.Lock()
	delete(c.s.conns, c.id)
	c.s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.f.Close() // of a nil file is an error only
	c.f = nil
}

// receive passes on what comes, and its end.
func (c *connection) receive() error {
	buf := make([]byte, control.MaxData)
	for {
		n, err := c.f.Read(buf)
		if n > 0 {
			c.window.take(n)
			_ = c.s.link.Send(&control.Message{Type: control.TypeOutput, ID: c.id, Stream: control.Stdout, Data: control.Text(buf[:n])})
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = c.s.link.Send(&control.Message{Type: control.TypeOutput, ID: c.id, Stream: control.Stdout})
			return nil
		case err != nil:
			return err
		}
	}
}

// handle does what the host asks for.
func (c *connection) handle(m *control.Message) error {
	switch m.Type {
	case control.TypeStdin:
		return c.stdin.write(string(m.Data))
	case control.TypeStdinClose:
		c.stdin.close()
	case control.TypeAck:
		c.window.give(m.Bytes)
	case control.TypeCancel:
		c.abort()
	}
	return nil
}

// open takes the connection when it is made.
func (c *connection) open(f *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f, c.stdin.w = f, f
	c.stdin.ends = func() {
		defer close(c.sent)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.aborted {
			onSocket(f, func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }) // it may be broken
		}
	}
	if c.aborted {
		c.sever()
	}
}

// abort ends the connection so that its other end sees a reset.
func (c *connection) abort() {
	c.mu.Lock()
	if c.f != nil && !c.aborted {
		c.sever()
	}
	c.aborted = true
	c.mu.Unlock()
	c.window.end()
	c.stdin.close()
}

// sever ends what waits for the socket, and has its closing send a reset. The caller holds the lock.
func (c *connection) sever() {
	onSocket(c.f, func(fd int) {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // fails for no socket
	})
	_ = c.f.SetDeadline(time.Now()) // fails for no socket
}

func onSocket(f *os.File, do func(fd int)) {
	if rc, err := f.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { do(int(fd)) }) // it is closed
	}
}
