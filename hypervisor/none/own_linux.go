package none

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/paths"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// own is the guest's own program, in this process: it has the rights that commands have, as long as nothing isolates them.
type own struct {
	in, out *os.File
	started time.Time
	ended   chan struct{}
	status  hypervisor.ExitStatus
}

// own serves files ([paths.Serve]); it does so for any arguments.
func (g *guest) own(c hypervisor.Command) (hypervisor.Process, error) {
	in, err := duplicate(c.Stdin)
	if err != nil {
		return nil, err
	}
	out, err := duplicate(c.Stdout)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	p := &own{in: in, out: out, started: time.Now(), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if err := paths.Serve(in, out, paths.Options{Umask: g.umask, Inside: g.translate, Outside: g.back}); err != nil {
			p.status.Code = 1
		}
		p.status.Duration = time.Since(p.started)
		_, _ = in.Close(), out.Close()
	}()
	return p, nil
}

// duplicate is a file of our own, which deadlines wake.
func duplicate(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, errors.New("the guest's own program needs stdin and stdout")
	}
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	cerr := rc.Control(func(from uintptr) {
		fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
	})
	if err := errors.Join(cerr, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// back is translate, backwards.
func (g *guest) back(path string) string {
	for i, m := range g.mounts {
		if rel, in := lexical.Rel(g.point(i), path); in {
			return filepath.Join(m.share.HostPath, rel)
		}
	}
	return path
}

// PID implements [hypervisor.Process]: it is no process of its own.
func (p *own) PID() int                    { return 0 }
func (p *own) Terminal() *os.File          { return nil }
func (p *own) Resize(uint16, uint16) error { return nil }

// Signal implements [hypervisor.Process]: any of them ends it.
func (p *own) Signal(int) error { return p.Cancel(0) }

// Cancel ends it where it waits for the host, or writes to it.
func (p *own) Cancel(time.Duration) error {
	now := time.Unix(1, 0)
	_, _ = p.in.SetReadDeadline(now), p.out.SetWriteDeadline(now) // it may have ended
	return nil
}

// Wait implements [hypervisor.Process].
func (p *own) Wait(ctx context.Context) (hypervisor.ExitStatus, error) {
	select {
	case <-p.ended:
		return p.status, nil
	case <-ctx.Done():
		return hypervisor.ExitStatus{}, ctx.Err()
	}
}
