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

// Join implements [api.Joined]. The session gets our files, where both it and the system can do that; else the streams are relayed.
func (c *SessionClient) Join(ctx context.Context, r api.JoinRequest) (api.RunResult, error) {
	if !passesFiles {
		return c.join(ctx, r, true)
	}
	res, err := c.join(ctx, r, false)
	if wantsRelay(err) {
		return c.join(ctx, r, true)
	}
	return res, err
}

func (c *SessionClient) join(ctx context.Context, r api.JoinRequest, relayed bool) (api.RunResult, error) {
	p := runParams{
		Argv: r.Run.Argv, Env: r.Run.Env, Dir: r.Run.Dir, Timeout: r.Run.Timeout,
		Wants: r.Wants, Relayed: relayed, Ignored: r.Run.Ignored, Asks: r.Run.Asks,
	}
	ask := Ask{Method: "run", Finish: true}
	if t := r.Run.TTY; t != nil && (!relayed || !t.Partial()) {
		p.Terminal = &terminal{Rows: t.Rows, Cols: t.Cols, Term: t.Term, Stops: t.Stopped != nil}
		if t.Partial() {
			p.Terminal.Of = &t.Of
		}
	}
	if !relayed {
		p.Further = hypervisor.Numbers(r.Run.Further)
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return api.RunResult{}, err
		}
		defer null.Close()
		ask.Files = p.given(r.Run, null)
	}
	ask.Params = p
	h := &hearing{c: c, r: r}
	if relayed {
		reading, read := context.WithCancel(context.Background())
		defer read()
		h.relaying = &relaying{c: c.c, reading: reading}
	}
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

// given are the files that go with a command that has them. In the place of a terminal, which stays here, null goes.
func (p runParams) given(r api.RunRequest, null *os.File) (files []*os.File) {
	if p.files() > 0 {
		files = []*os.File{r.Stdin, r.Stdout, r.Stderr}
		for i, is := range r.TTY.Streams() {
			if is {
				files[i] = null
			}
		}
	}
	return append(files, hypervisor.Files(r.Further)...)
}

// hearing is a command of ours in another process, until it has ended.
type hearing struct {
	c        *SessionClient
	r        api.JoinRequest
	accepted bool // written and read by the client's goroutine, until the answer is there
	terminal *os.File
	relaying *relaying // nil: the session has our files
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
	case p.Started != nil:
		w := which{p.Started.Step, p.Started.Command}
		if err := h.relay(w); err != nil {
			return err
		}
		if h.r.Run.Started != nil { // on a goroutine of its own: it may ask the session something
			h.started.Go(func() { h.r.Run.Started(w.Step, &process{h.c.c, w, h.terminal}) })
		}
	case p.Stopped != 0 && h.r.Run.TTY != nil && h.r.Run.TTY.Stopped != nil:
		h.r.Run.TTY.Stopped(p.Stopped)
	case p.Event != nil && h.r.Event != nil:
		h.r.Event(*p.Event)
	}
	return nil
}

// relay begins to move the streams of a command that has not our files.
func (h *hearing) relay(w which) (err error) {
	r := h.relaying
	if r == nil {
		return nil
	}
	r.which = w
	if t := h.r.Run.TTY; t != nil && !t.Partial() {
		h.terminal, err = r.terminal()
		return err
	}
	r.streams(h.r.Run.Stdin, h.r.Run.Stdout, h.r.Run.Stderr)
	return nil
}

// close returns when all output is written.
func (h *hearing) close() {
	if h.relaying != nil {
		h.relaying.output.Wait() // what stands for the terminal is read on
	} else if h.terminal != nil {
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
