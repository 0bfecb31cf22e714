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

	"github.com/codeagent/sandbox/hypervisor/inherit"
)

// monitorSocket is where the monitor listens until we have connected: the library
// takes an address, so there has to be one.
type monitorSocket struct {
	dir      string
	at       *os.File // the directory
	listener *os.File
}

// newMonitorSocket makes it in a directory of its own, in dir or where temporary files are.
func newMonitorSocket(dir string) (s *monitorSocket, err error) {
	s = &monitorSocket{}
	if dir == "" {
		dir, _ = inherit.TemporaryDir() // who starts us has said what is wrong with another
	}
	if s.dir, err = os.MkdirTemp(dir, "sandbox-qmp-"); err != nil { // 0700
		return nil, err
	}
	if s.at, err = os.Open(s.dir); err != nil {
		return nil, errors.Join(err, os.Remove(s.dir))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path(), Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		s.listener, err = l.File()
		_ = l.Close()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// path is short, however long the directory's is: a socket's has 107 bytes.
func (s *monitorSocket) path() string { return fmt.Sprintf("/proc/self/fd/%d/m", s.at.Fd()) }

func (s *monitorSocket) dial(context.Context) (*qmp.SocketMonitor, error) {
	const instantly = 10 * time.Second // it listens already
	return qmp.NewSocketMonitor("unix", s.path(), instantly)
}

func (s *monitorSocket) close() {
	_ = os.Remove(filepath.Join(s.dir, "m"))
	_ = os.Remove(s.dir)
	_ = s.at.Close()
}

// inheritedMonitor has QEMU inherit the socket at which it listens.
func inheritedMonitor(w *wires) (monitorEnd, error) {
	s, err := newMonitorSocket(w.parent)
	if err != nil {
		return monitorEnd{}, err
	}
	return monitorEnd{option: fmt.Sprintf("fd=%d%s", w.add(s.listener), listens), dial: s.dial, close: s.close}, nil
}
