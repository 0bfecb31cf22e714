package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
)

// door is where the monitor listens until we have connected: the library takes
// an address, so there has to be one.
type door struct {
	dir      string
	at       *os.File // the directory
	listener *os.File
}

func newDoor() (d *door, err error) {
	d = &door{}
	if d.dir, err = os.MkdirTemp("", "sandbox-qmp-"); err != nil { // 0700
		return nil, err
	}
	if d.at, err = os.Open(d.dir); err != nil {
		return nil, errors.Join(err, os.Remove(d.dir))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.path(), Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		d.listener, err = l.File()
		_ = l.Close()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// path is short, however long the directory's is: a socket's has 107 bytes.
func (d *door) path() string { return fmt.Sprintf("/proc/self/fd/%d/m", d.at.Fd()) }

func (d *door) dial() (*qmp.SocketMonitor, error) {
	const instantly = 10 * time.Second // it listens already
	return qmp.NewSocketMonitor("unix", d.path(), instantly)
}

func (d *door) close() {
	_ = os.Remove(filepath.Join(d.dir, "m"))
	_ = os.Remove(d.dir)
	_ = d.at.Close()
}

// greet connects to the monitor.
func (g *guest) greet(ctx context.Context, d *door) error {
	m, err := d.dial()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = m.Disconnect() })
	defer stop()
	q, err := attach(m)
	if err != nil {
		_ = m.Disconnect()
		return err
	}
	g.mu.Lock()
	g.monitor = q
	g.mu.Unlock()
	return nil
}
