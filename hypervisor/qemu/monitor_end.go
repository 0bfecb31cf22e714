package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
)

// monitorEnd is QEMU's monitor, to which the library connects: it dials an address.
type monitorEnd struct {
	option string
	dial   func(ctx context.Context) (*qmp.SocketMonitor, error)
	close  func()
}

// listens makes QEMU the one that listens.
const listens = ",server=on,wait=off"

// monitor makes the monitor's end.
func (w *wires) monitor() (monitorEnd, error) {
	if !w.named {
		return inheritedMonitor(w)
	}
	if runtime.GOOS == "windows" {
		return loopbackMonitor(w)
	}
	path := filepath.Join(w.dir, "monitor")
	return monitorEnd{option: "path=" + value(path) + listens, dial: dialing("unix", path), close: func() {}}, nil
}

// loopbackMonitor has QEMU connect to us, as for all else, and the library to a port of ours from which we relay: at a port where
// QEMU listens, any user of the machine could be first, and QEMU does all that it is told. Whoever connects to either is looked at.
func loopbackMonitor(w *wires) (monitorEnd, error) {
	e, err := w.pair()
	if err != nil {
		return monitorEnd{}, err
	}
	dial := func(ctx context.Context) (*qmp.SocketMonitor, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		ours := &end{listen: l, log: w.log, from: func(_ context.Context, c net.Conn) error { return fromProcess(c, os.Getpid()) }}
		relayed := make(chan struct{})
		go func() {
			defer close(relayed)
			relay(ctx, ours, e)
		}()
		m, err := dialing("tcp", l.Addr().String())(ctx)
		if err != nil {
			_ = ours.Close()
			<-relayed
		}
		return m, err
	}
	return monitorEnd{option: e.option, dial: dial, close: func() { _ = e.Close() }}, nil
}

// relay connects the two sides until one of them ends.
func relay(ctx context.Context, a, b *end) {
	x, err := a.conn(ctx)
	if err != nil {
		return
	}
	defer x.Close()
	y, err := b.conn(ctx)
	if err != nil {
		return
	}
	defer y.Close()
	go func() {
		_, _ = io.Copy(x, y)
		_ = x.Close()
	}()
	_, _ = io.Copy(y, x)
}

// dialing connects as soon as QEMU listens.
func dialing(network, address string) func(context.Context) (*qmp.SocketMonitor, error) {
	return func(ctx context.Context) (*qmp.SocketMonitor, error) {
		const (
			instantly = 10 * time.Second // once it listens
			pause     = 20 * time.Millisecond
		)
		t := time.NewTicker(pause)
		defer t.Stop()
		for {
			m, err := qmp.NewSocketMonitor(network, address, instantly)
			if err == nil {
				return m, nil
			}
			select {
			case <-t.C:
			case <-ctx.Done():
				return nil, fmt.Errorf("QEMU's monitor: %w", err)
			}
		}
	}
}

// greet connects to the monitor. Once it is connected, only QEMU's end ends a wait for an answer: the library allows no call beside its
// Connect, not that of Disconnect either. Who gives the machine up kills QEMU.
func (g *guest) greet(ctx context.Context, s monitorEnd) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.wiring, cancel)()
	m, err := s.dial(ctx)
	if err != nil {
		return g.unlessEnded(err)
	}
	q, err := attach(m)
	if err != nil {
		_ = m.Disconnect()
		return g.unlessEnded(err)
	}
	g.mu.Lock()
	g.monitor = q
	g.mu.Unlock()
	return nil
}

// unlessEnded adds to an error of a connection that QEMU has ended, if it has: that is why then.
func (g *guest) unlessEnded(err error) error { return errors.Join(context.Cause(g.wiring), err) }
