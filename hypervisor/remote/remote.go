package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
)

// Exec starts a command as [hypervisor.Guest] describes it. kind names the
// runtime in errors; believed says that no command can speak for the guest's
// first process, so that it is believed to be alone.
func Exec(ctx context.Context, h *control.Host, kind string, believed bool, c hypervisor.Command) (hypervisor.Process, error) {
	if len(c.Argv) == 0 {
		return nil, fmt.Errorf("%s: no command", kind)
	}
	e := control.Exec{
		ID: c.ID, Argv: c.Argv, Env: c.Env, Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		Further: hypervisor.Files(c.Further), Numbers: hypervisor.Numbers(c.Further), Ignored: c.Ignored, Own: c.Own,
	}
	if c.TTY != nil {
		e.TTY = &control.TTY{Rows: c.TTY.Rows, Cols: c.TTY.Cols, Stops: c.TTY.Stopped != nil && !c.TTY.Partial()}
		e.Stopped = c.TTY.Stopped
		for i, is := range c.TTY.Of {
			if is && c.TTY.Partial() {
				e.TTY.Of |= 1 << i
			}
		}
	}
	if c.Limits != nil {
		e.Limits = &control.Limits{Nice: c.Limits.Nice}
		for _, l := range c.Limits.List {
			e.Limits.List = append(e.Limits.List, control.Limit(l))
		}
	}
	p, err := h.Start(ctx, e)
	var se *control.StartError
	switch {
	case errors.As(err, &se):
		return nil, &hypervisor.StartError{
			Argv0: c.Argv[0], ExitCode: se.ExitCode, Err: errors.New(strings.TrimPrefix(se.Reason, c.Argv[0]+": ")),
			NoDirectory: se.ExitCode == 126 && strings.HasPrefix(se.Reason, control.NoDirectory),
		}
	case errors.Is(err, control.ErrTooLarge):
		return nil, &hypervisor.StartError{Argv0: c.Argv[0], ExitCode: 126, Err: errors.New("arguments and environment exceed 1 MiB")}
	case err != nil:
		return nil, fmt.Errorf("%s: starting %s: %w", kind, c.Argv[0], err)
	}
	return process{p, believed}, nil
}

// process is a command in a guest.
type process struct {
	p        *control.Proc
	believed bool
}

var _ hypervisor.Process = process{}

func (p process) PID() int                         { return p.p.PID() }
func (p process) Terminal() *os.File               { return p.p.Terminal() }
func (p process) Signal(sig int) error             { return p.p.Signal(sig) }
func (p process) Resize(rows, cols uint16) error   { return p.p.Resize(rows, cols) }
func (p process) Cancel(grace time.Duration) error { return p.p.Cancel(grace) }

func (p process) Wait(ctx context.Context) (hypervisor.ExitStatus, error) {
	st, err := p.p.Wait(ctx)
	return hypervisor.ExitStatus{Code: st.Code, Signal: st.Signal, Duration: st.Duration, Alone: st.Alone && p.believed}, err
}

// Tail keeps the last 8 KiB of what is written to it. Its zero value is empty;
// it is safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 8 << 10

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailBytes; n > 0 {
		t.buf = bytes.Clone(t.buf[n:])
	}
	return len(p), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// TerminalPair makes what stands for a terminal whose master is elsewhere: [control.TerminalPair].
func TerminalPair() (outer, inner *os.File, err error) { return control.TerminalPair() }
