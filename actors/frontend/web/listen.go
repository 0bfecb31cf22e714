package web

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// WriteTime is how long a client may leave what it is sent unread before its connection ends.
	WriteTime = 30 * time.Second
	// DefaultConnections are how many connections are served at a time where nothing else is said.
	DefaultConnections = 512
	// piece is how much of a file is handed to the kernel at a time: a client has the time for one write for each.
	piece = 256 << 10
)

// Listening says where to listen.
type Listening struct {
	// Address is HOST:PORT. Port 0 is a free one; no host is all of this machine's addresses.
	Address string
	// Flag names the flag that Address comes from, for errors.
	Flag string
	// Keys says that clients have to show a key, and Public that what is served is no secret and changes nothing. Without either, only a loopback address is allowed.
	Keys, Public bool
	// TLS is nil for none.
	TLS *tls.Config
	// Connections are served at a time, more wait; 0 means [DefaultConnections].
	Connections int
	// WriteTime is how long a client may leave what it is sent unread; 0 means the constant of that name.
	WriteTime time.Duration
}

// Listen listens. A connection ends when its client leaves what it is sent unread for WriteTime. An error says what to do.
func Listen(o Listening) (net.Listener, error) {
	_, _, err := net.SplitHostPort(o.Address)
	var addr *net.TCPAddr
	if err == nil {
		addr, err = net.ResolveTCPAddr("tcp", o.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: it is HOST:PORT, as in 127.0.0.1:8080", o.Flag, o.Address, err)
	}
	if !o.Keys && !o.Public && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("%s %s: whoever reaches this address could do what a client may: name a file of keys, or listen at 127.0.0.1", o.Flag, o.Address)
	}
	tcp, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.Flag, o.Address, err)
	}
	if o.Connections == 0 {
		o.Connections = DefaultConnections
	}
	if o.WriteTime == 0 {
		o.WriteTime = WriteTime
	}
	var l net.Listener = &listener{TCPListener: tcp, write: o.WriteTime, slots: make(chan struct{}, o.Connections), closed: make(chan struct{})}
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	return l, nil
}

// IsLoopback reports whether only this machine reaches l.
func IsLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// listener bounds how many connections there are.
type listener struct {
	*net.TCPListener
	write  time.Duration
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.AcceptTCP()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &conn{TCPConn: c, write: l.write, gone: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// conn ends when its client does not read.
type conn struct {
	*net.TCPConn
	write time.Duration
	gone  func()
}

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(b)
}

// ReadFrom implements [io.ReaderFrom]: by it the kernel sends files without us.
func (c *conn) ReadFrom(r io.Reader) (total int64, err error) {
	from := &io.LimitedReader{R: r, N: 1<<63 - 1}
	if limited, ok := r.(*io.LimitedReader); ok { // more than one of them would keep the kernel's way from being found
		from = limited
	}
	if _, ok := from.R.(*os.File); !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	for from.N > 0 && err == nil {
		if err = c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
			break
		}
		var n int64
		part := &io.LimitedReader{R: from.R, N: min(from.N, piece)}
		n, err = c.TCPConn.ReadFrom(part)
		total, from.N = total+n, from.N-n
		if n == 0 {
			break
		}
	}
	return total, err
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	defer c.gone()
	return c.TCPConn.Close()
}
