package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
)

// monitorEnd is QEMU's monitor, to which we connect: the library dials.
type monitorEnd struct {
	option string
	dial   func(ctx context.Context) (*qmp.SocketMonitor, error)
	close  func()
}

// monitor makes the monitor's end.
func (w *wires) monitor() (monitorEnd, error) {
	if !w.named {
		return inheritedMonitor(w)
	}
	if runtime.GOOS == "windows" {
		return loopbackMonitor()
	}
	path := filepath.Join(w.dir, "monitor")
	return monitorEnd{option: "path=" + value(path), dial: dialing("unix", path), close: func() {}}, nil
}

// loopbackMonitor has QEMU listen on a port that was free a moment ago. If somebody takes it meanwhile, QEMU does not start and says so.
func loopbackMonitor() (monitorEnd, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return monitorEnd{}, err
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		return monitorEnd{}, err
	}
	host, port, _ := strings.Cut(at, ":")
	return monitorEnd{option: "host=" + host + ",port=" + port, dial: dialing("tcp", at), close: func() {}}, nil
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

// greet connects to the monitor.
func (g *guest) greet(ctx context.Context, s monitorEnd) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.wiring, cancel)()
	m, err := s.dial(ctx)
	if err != nil {
		return g.unlessEnded(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = m.Disconnect() })
	defer stop()
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
