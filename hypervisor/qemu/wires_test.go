package qemu

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// TestStrangersAreSentAway: on a port that everybody can reach, QEMU's connection is the first that is from QEMU.
func TestStrangersAreSentAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	seen := 0
	e := &end{listen: l, log: slog.New(slog.NewTextHandler(&text, nil)), from: func(context.Context, net.Conn) error {
		if seen++; seen < 3 {
			return errors.New("process 7")
		}
		return nil
	}}
	type answer struct {
		c   net.Conn
		err error
	}
	got := make(chan answer)
	go func() {
		c, err := e.conn(t.Context())
		got <- answer{c, err}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for range 2 {
		if n, err := dial().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a stranger reads %d bytes, %v", n, err)
		}
	}
	third := dial()
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.c.Close()
	if a.c.RemoteAddr().String() != third.LocalAddr().String() || strings.Count(text.String(), "process 7") != 2 {
		t.Errorf("%v has the connection, of %v; %s", a.c.RemoteAddr(), third.LocalAddr(), text.String())
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("somebody can still connect")
	}
}

// TestNobodyWaitsForAMachineThatDoesNotStart: who has connected meanwhile is not taken for QEMU.
func TestNobodyWaitsForAMachineThatDoesNotStart(t *testing.T) {
	w := wires{known: make(chan struct{})}
	w.started(0)
	if err := w.isQEMU(t.Context(), nil); err == nil {
		t.Error("there is no QEMU")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w = wires{known: make(chan struct{})}
	if err := w.isQEMU(ended, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
