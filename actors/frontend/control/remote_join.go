package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

var _ api.Joined = (*SessionClient)(nil)

// DialJoined is [DialSession] for a session that shall run commands: it must be this
// user's own, because it gets this process's files.
func DialJoined(ctx context.Context, socketPath string) (api.Joined, error) {
	c, err := Dial(ctx, socketPath)
	if err != nil {
		return nil, fmt.Errorf("session does not answer at %s: %w", socketPath, err)
	}
	return joinedAt(socketPath, c)
}

// Asked is a command that a session was asked to run, by a request such as [SessionClient.Join] sends.
type Asked struct {
	Socket string   // the session's control socket
	Conn   *os.File // the connection to it
	ID     uint64   // of the request, the connection's only one
	Answer []byte   // what was read of the answer
}

// AdoptSession is [DialJoined] for a session that was asked already: the first Join, which comes before anything else,
// waits for the answer and sends nothing. Conn is the client's.
func AdoptSession(a Asked) (api.Joined, error) {
	c, err := Adopt(a.Conn, a.ID, a.Answer)
	if err != nil {
		return nil, err
	}
	return joinedAt(a.Socket, c)
}

func joinedAt(socketPath string, c *Client) (api.Joined, error) {
	uid, pid, err := c.Peer()
	if err == nil && uid != os.Geteuid() {
		err = fmt.Errorf("the session at %s is that of user %d", socketPath, uid)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return newSessionClient(socketPath, pid, c), nil
}

// PID implements [api.Joined].
func (c *SessionClient) PID() int { return c.pid }

// Stop implements [api.Joined].
func (c *SessionClient) Stop(ctx context.Context) error {
	ended, release := watch(c.pid)
	defer release()
	if err := c.Wire.Ask(ctx, "stop", api.None{}, nil); err != nil && !errors.Is(err, ErrDisconnected) {
		return err
	}
	select {
	case <-c.c.Done():
		return ended(ctx) // only then are the logs given back
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Offers implements [api.Joined].
func (c *SessionClient) Offers(ctx context.Context, w api.Wants) error {
	return c.Wire.Ask(ctx, "offers", w, nil)
}

// Join implements [api.Joined].
func (c *SessionClient) Join(ctx context.Context, r api.JoinRequest) (api.RunResult, error) {
	if err := JoinPossible(); err != nil {
		return api.RunResult{}, fmt.Errorf("%w: %w; end the session with 'sandbox stop', or wait for its end", api.ErrNotGiven, err)
	}
	p := runParams{
		Argv: r.Run.Argv, Env: r.Run.Env, Dir: r.Run.Dir, Timeout: r.Run.Timeout,
		Wants: r.Wants, Further: hypervisor.Numbers(r.Run.Further), Ignored: r.Run.Ignored, Asks: r.Run.Asks,
	}
	ask := Ask{Method: "run", Finish: true}
	if t := r.Run.TTY; t != nil {
		p.Terminal = &terminal{Rows: t.Rows, Cols: t.Cols, Term: t.Term, Stops: t.Stopped != nil}
		if t.Partial() {
			p.Terminal.Of = &t.Of
		}
	}
	if p.Terminal.files() > 0 {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return api.RunResult{}, err
		}
		defer null.Close()
		ask.Files = []*os.File{r.Run.Stdin, r.Run.Stdout, r.Run.Stderr}
		for i, is := range r.Run.TTY.Streams() {
			if is { // the terminal itself stays here
				ask.Files[i] = null
			}
		}
	}
	ask.Files = append(ask.Files, hypervisor.Files(r.Run.Further)...)
	ask.Params = p
	h := &hearing{c: c, r: r}
	ask.Part = h.part
	var res runResult
	err := c.c.Do(ctx, ask, &res)
	h.started.Wait()
	h.close()
	if err != nil {
		return api.RunResult{}, h.failure(err)
	}
	out := api.RunResult{
		Step: res.Step, Outcome: res.Outcome, Reason: res.Reason, Left: res.Left, Others: res.Others, Refused: res.Refused, Warnings: res.Warned, Entries: res.Entries,
		Status: hypervisor.ExitStatus{Code: res.ExitCode, Signal: res.Signal, Duration: res.Duration, Limit: res.Limit},
	}
	return out, nil
}

// hearing is a command of ours in another process, until it has ended.
type hearing struct {
	c        *SessionClient
	r        api.JoinRequest
	accepted bool // written and read by the client's goroutine, until the answer is there
	terminal *os.File
	started  sync.WaitGroup
}

// part takes a part of the answer.
func (h *hearing) part(b json.RawMessage, files []*os.File) error {
	var p runPart
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	for _, f := range files {
		if h.terminal == nil && p.Started != nil {
			h.terminal = f
		} else {
			_ = f.Close()
		}
	}
	switch {
	case p.Accepted:
		h.accepted = true
	case p.Waits != nil && h.r.Waits != nil:
		h.r.Waits(*p.Waits)
	case p.Started != nil && h.r.Run.Started != nil:
		// On a goroutine of its own: it may ask the session something.
		h.started.Go(func() {
			h.r.Run.Started(p.Started.Step, &process{h.c.c, which{p.Started.Step, p.Started.Command}, h.terminal})
		})
	case p.Stopped != 0 && h.r.Run.TTY != nil && h.r.Run.TTY.Stopped != nil:
		h.r.Run.TTY.Stopped(p.Stopped)
	case p.Event != nil && h.r.Event != nil:
		h.r.Event(*p.Event)
	}
	return nil
}

func (h *hearing) close() {
	if h.terminal != nil {
		_ = h.terminal.Close()
	}
}

// failure is what became of a command without a result.
func (h *hearing) failure(err error) error {
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code == CodeTooLarge:
		return &hypervisor.StartError{Argv0: h.r.Run.Argv[0], ExitCode: 126, Err: errors.New("arguments and environment exceed 1 MiB")}
	case errors.Is(err, ErrDisconnected) && !h.accepted:
		return fmt.Errorf("%w: %w", messages.ErrEnding, err)
	case errors.Is(err, ErrDisconnected):
		return fmt.Errorf("the session was killed, and the command with it: %w", err)
	}
	err = fromWire(err)
	if errors.Is(err, messages.ErrStopped) && !h.accepted { // it ended before it heard us
		return fmt.Errorf("%w: %w", messages.ErrEnding, err)
	}
	return err
}

// process is a command in another process's session.
type process struct {
	c        *Client
	which    which
	terminal *os.File
}

var _ hypervisor.Process = (*process)(nil)

// answerTime bounds how long a session may take to pass a signal on.
const answerTime = 10 * time.Second

func (p *process) tell(method string, params any) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	return fromWire(p.c.Call(ctx, method, params, nil, nil))
}

func (p *process) Terminal() *os.File   { return p.terminal }
func (p *process) Signal(sig int) error { return p.tell("signal", signalParams{p.which, sig}) }

// PID implements [hypervisor.Process]: only the session knows it.
func (p *process) PID() int { return 0 }

func (p *process) Resize(rows, cols uint16) error {
	return p.tell("resize", resizeParams{p.which, rows, cols})
}

// Cancel and Wait are those of [SessionClient.Join], by its context and its return.
func (*process) Cancel(time.Duration) error { return errors.ErrUnsupported }

func (*process) Wait(context.Context) (hypervisor.ExitStatus, error) {
	return hypervisor.ExitStatus{}, errors.ErrUnsupported
}
