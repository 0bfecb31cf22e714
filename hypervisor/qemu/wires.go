package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"github.com/codeagent/sandbox/hypervisor/inherit"
)

// wires are QEMU's connections to us, and the files that it is given. Where descriptors are inherited it gets those, so that nothing of it
// has a name. Elsewhere (Options.Named) QEMU connects to sockets of ours, once each: by name in a directory that only this user can enter,
// or where systems have none, on the loopback, and opens files by their paths.
type wires struct {
	named   bool
	dir     string     // of the sockets; empty: there is none
	parent  string     // in which it is made
	inherit []*os.File // ours until the start, then closed
	keep    []io.Closer
	opened  []io.Closer // named files: until QEMU has opened them
	disks   []*os.File  // named disks, whose locks are ours: until QEMU ends
	log     *slog.Logger
	known   chan struct{} // closed once pid is known
	pid     int           // QEMU's; 0: it has not started
}

// started says which process QEMU is, or with 0 that there is none. It is called once.
func (w *wires) started(pid int) {
	w.pid = pid
	close(w.known)
}

// end is one connection before QEMU has started.
type end struct {
	option string   // as -chardev socket has it: fd=N, path=P or host=H,port=N
	file   *os.File // our side; nil: QEMU connects
	listen net.Listener
	from   func(ctx context.Context, c net.Conn) error // whether it is QEMU that has connected; nil: nobody else can
	log    *slog.Logger
	once   sync.Once // taken, or closed: a file's descriptor is looked at by nobody else meanwhile
}

// add gives QEMU a file and returns its number there.
func (w *wires) add(file *os.File) int {
	w.inherit = append(w.inherit, file)
	return 2 + len(w.inherit)
}

// pair makes a connection.
func (w *wires) pair() (*end, error) {
	if !w.named {
		e, theirs, err := inheritedPair()
		if err != nil {
			return nil, err
		}
		w.keep = append(w.keep, e)
		e.option = fmt.Sprintf("fd=%d", w.add(theirs))
		return e, nil
	}
	l, option, err := w.socket()
	if err != nil {
		return nil, fmt.Errorf("a socket for QEMU: %w", err)
	}
	e := &end{option: option, listen: l, log: w.log}
	if l.Addr().Network() == "tcp" {
		e.from = w.isQEMU
	}
	w.keep = append(w.keep, e)
	return e, nil
}

// isQEMU returns an error if somebody else has connected: on the loopback every user of the machine can.
func (w *wires) isQEMU(ctx context.Context, c net.Conn) error {
	select {
	case <-w.known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if w.pid == 0 {
		return errors.New("QEMU has not started")
	}
	return fromProcess(c, w.pid)
}

// socket listens where QEMU shall connect.
func (w *wires) socket() (net.Listener, string, error) {
	if runtime.GOOS == "windows" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		return l, fmt.Sprintf("host=127.0.0.1,port=%d", l.Addr().(*net.TCPAddr).Port), nil
	}
	if err := w.room(); err != nil {
		return nil, "", err
	}
	path := filepath.Join(w.dir, strconv.Itoa(len(w.keep)))
	l, err := net.Listen("unix", path)
	if err == nil {
		err = lend(path)
	}
	return l, "path=" + value(path), err
}

// room makes the directory.
func (w *wires) room() error {
	if w.dir != "" {
		return nil
	}
	parent := w.parent
	if parent == "" {
		parent, _ = inherit.TemporaryDir() // who starts us has said what is wrong with another
	}
	dir, err := os.MkdirTemp(parent, "sandbox-vm-") // 0700
	if err != nil {
		return err
	}
	if err := lend(dir); err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	w.dir = dir
	return nil
}

// drop closes QEMU's ends, and with ours set the others too.
func (w *wires) drop(ours bool) {
	for _, x := range w.inherit {
		_ = x.Close()
	}
	w.inherit = nil
	if ours {
		closeAll(w.keep)
		closeAll(w.disks)
		w.tidy()
	}
}

func closeAll[T io.Closer](list []T) {
	for _, x := range list {
		_ = x.Close()
	}
}

// tidy gives up what QEMU has no use for once it has connected.
func (w *wires) tidy() {
	closeAll(w.opened)
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

// file gives QEMU a file to open by a path.
func (w *wires) file(f *os.File) (path string, err error) {
	if w.named {
		w.opened = append(w.opened, f)
		// It may have lost its name: an initramfs that was put together. And QEMU may be another user.
		if _, err := os.Stat(f.Name()); err != nil || !sameUser() {
			return w.copied(f)
		}
		return filepath.Abs(f.Name())
	}
	n := w.add(f)
	return fmt.Sprintf("/proc/self/fd/%d", n), nil
}

// copied gives a file a name among the sockets.
func (w *wires) copied(f *os.File) (path string, err error) {
	if err := w.room(); err != nil {
		return "", err
	}
	to, err := os.CreateTemp(w.dir, "file-")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, io.NewSectionReader(f, 0, 1<<62))
	return to.Name(), errors.Join(err, to.Close(), lend(to.Name()))
}

// drive gives QEMU a file to use as a disk.
func (w *wires) drive(f *os.File) (drive, error) {
	if w.named {
		w.disks = append(w.disks, f)
		path, err := filepath.Abs(f.Name())
		return drive{path: path}, err
	}
	return drive{fd: w.add(f)}, nil
}

// conn is our side, once QEMU has connected, and nobody connects any more then. It is called once, perhaps beside Close, and the
// connection is the caller's.
func (e *end) conn(ctx context.Context) (c net.Conn, err error) {
	if e.file != nil {
		err = net.ErrClosed
		e.once.Do(func() {
			c, err = net.FileConn(e.file)
			err = errors.Join(err, e.file.Close())
		})
		return c, err
	}
	stop := context.AfterFunc(ctx, func() { _ = e.Close() })
	defer stop()
	c, err = e.listen.Accept()
	for err == nil && e.from != nil {
		why := e.from(ctx, c)
		if why == nil {
			break
		}
		_ = c.Close()
		e.log.Warn("somebody else has connected in QEMU's place, and was sent away", "err", why)
		c, err = e.listen.Accept()
	}
	_ = e.Close()
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("QEMU has not connected: %w", context.Cause(ctx))
	}
	return c, err
}

// Close closes what [end.conn] has not taken.
func (e *end) Close() (err error) {
	e.once.Do(func() {
		if e.file != nil {
			err = e.file.Close()
			return
		}
		err = e.listen.Close()
	})
	return err
}
