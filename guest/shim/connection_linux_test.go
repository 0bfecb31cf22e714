package shim_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/shim"
)

// streams returns the host's end of a shim whose channel passes no descriptors.
func streams(t *testing.T) *control.Host {
	t.Helper()
	a, b := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- shim.Serve(b, shim.Options{}) }()
	h := control.NewHost(a, func(err error) { t.Errorf("problem: %v", err) })
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Shutdown()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-h.Done()
	})
	return h
}

// listen serves each connection to the loopback, and returns its port.
func listen(t *testing.T, address string, serve func(*net.TCPConn)) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// TestConnect: bytes and ends pass in both directions, more of them than a window holds,
// many connections at once, to both addresses of the loopback.
func TestConnect(t *testing.T) {
	h := streams(t)
	for _, address := range []string{"127.0.0.1", "::1"} {
		port := listen(t, address, func(c *net.TCPConn) { // sends back what it got, when it has all of it
			defer c.Close()
			all, _ := io.ReadAll(c)
			_, _ = c.Write(all)
		})
		sent := strings.Repeat("\xff0123456", 1<<16)
		done := make(chan error, 4)
		for range cap(done) {
			go func() {
				s, err := h.Connect(t.Context(), port)
				if err != nil {
					done <- err
					return
				}
				_, err = io.WriteString(s, sent)
				err = errors.Join(err, s.CloseWrite())
				got, rerr := io.ReadAll(s)
				if string(got) != sent {
					err = errors.Join(err, errors.New("other bytes"))
				}
				done <- errors.Join(err, rerr, s.Close())
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// TestConnectServerEndsFirst: what the server sends arrives although it reads on.
func TestConnectServerEndsFirst(t *testing.T) {
	h := streams(t)
	heard := make(chan string, 1)
	port := listen(t, "127.0.0.1", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "first")
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		_ = c.Close()
		heard <- string(all)
	})
	s, err := h.Connect(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s); err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := io.WriteString(s, "second"); err != nil {
		t.Error(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Error(err)
	}
	if got := <-heard; got != "second" {
		t.Errorf("the server heard %q", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestConnectResets: a reset is told in both directions, and a port at which nobody
// listens refuses.
func TestConnectResets(t *testing.T) {
	h := streams(t)
	heard := make(chan error, 1)
	port := listen(t, "127.0.0.1", func(c *net.TCPConn) {
		b := make([]byte, 1)
		_, first := io.ReadFull(c, b)
		if first == nil && b[0] == 'r' { // resets
			_ = c.SetLinger(0)
			_ = c.Close()
			return
		}
		_, err := io.ReadAll(c)
		_ = c.Close()
		heard <- errors.Join(first, err)
	})
	connect := func(first string) *control.Stream {
		t.Helper()
		s, err := h.Connect(t.Context(), port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(s, first); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := connect("r")
	if got, err := io.ReadAll(s); err == nil {
		t.Errorf("a reset is an end in order: %q", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := connect("w").Close(); err != nil {
		t.Error(err)
	}
	if err := <-heard; err == nil {
		t.Error("the server was not told of the reset")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = uint16(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	if _, err := h.Connect(t.Context(), port); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a port at which nobody listens: %v", err)
	}
}

// TestConnectEndsWithTheGuest: the end of the channel ends a connection that is open.
func TestConnectEndsWithTheGuest(t *testing.T) {
	h := streams(t)
	closed := make(chan struct{})
	port := listen(t, "127.0.0.1", func(c *net.TCPConn) {
		_, _ = io.ReadAll(c)
		close(closed)
	})
	s, err := h.Connect(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Shutdown(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(s); err == nil {
		t.Errorf("the connection ended in order: %q", got)
	}
	<-closed
	_ = s.Close()
}
