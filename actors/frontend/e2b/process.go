package e2b

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/messages"
)

// Messages of process.Process, as JSON has them.
type (
	processConfig struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args"`
		Envs map[string]string `json:"envs"`
		Cwd  string            `json:"cwd,omitempty"`
	}
	terminal struct {
		Size *struct{ Cols, Rows uint16 } `json:"size"`
	}
	startRequest struct {
		Process *processConfig `json:"process"`
		PTY     *terminal      `json:"pty"`
		Tag     string         `json:"tag"`
		Stdin   *bool          `json:"stdin"`
	}
	selector struct {
		PID *uint32 `json:"pid"`
		Tag string  `json:"tag"`
	}
	processInput struct {
		Stdin []byte `json:"stdin"`
		PTY   []byte `json:"pty"`
	}
	processRequest struct { // of all calls about a process
		Process *selector     `json:"process"`
		Input   *processInput `json:"input"`
		PTY     *terminal     `json:"pty"`
		Signal  signal        `json:"signal"`
	}
	inputEvent struct {
		Start *struct {
			Process *selector `json:"process"`
		} `json:"start"`
		Data *struct {
			Input *processInput `json:"input"`
		} `json:"data"`
		Keepalive *struct{} `json:"keepalive"`
	}
	processInfo struct {
		Config processConfig `json:"config"`
		PID    uint32        `json:"pid"`
		Tag    string        `json:"tag,omitempty"`
	}
	startEvent struct {
		PID uint32 `json:"pid"`
	}
	endEvent struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
	processEvent struct {
		Start     *startEvent `json:"start,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		Keepalive *struct{}   `json:"keepalive,omitempty"`
	}
	eventMessage struct {
		Event any `json:"event"`
	}
)

// signal is one of the two that clients know: by name, or by number.
type signal int

// UnmarshalJSON implements [json.Unmarshaler].
func (s *signal) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"SIGNAL_SIGTERM"`, "15":
		*s = signal(syscall.SIGTERM)
	case `"SIGNAL_SIGKILL"`, "9":
		*s = signal(syscall.SIGKILL)
	case `"SIGNAL_UNSPECIFIED"`, "0", "null":
		*s = 0
	default:
		return fmt.Errorf("signal: %.40s is neither SIGNAL_SIGTERM nor SIGNAL_SIGKILL", b)
	}
	return nil
}

// start runs a command and streams what it writes. The command goes on when the client has gone.
func (s *Server) start(r *http.Request, p *place, message []byte, open func() *stream) error {
	var m startRequest
	if err := wire.Decode(message, &m); err != nil {
		return err
	}
	ctx, id, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	req, err := p.command(r, m)
	if err != nil {
		return err
	}
	req.Origin = origin(id, "process.start")
	done := p.started()
	st, err := p.live.StartCommand(ctx, req)
	done()
	if err != nil {
		return err
	}
	return s.follow(ctx, r, p, st, api.FollowRequest{Number: st.Number, Paced: true}, open())
}

// command is what a start asks for.
func (p *place) command(r *http.Request, m startRequest) (c api.CommandRequest, err error) {
	if m.Process == nil || m.Process.Cmd == "" {
		return c, wire.Fail(http.StatusBadRequest, "process.cmd is missing")
	}
	c = api.CommandRequest{
		Argv: append([]string{m.Process.Cmd}, m.Process.Args...), Tag: m.Tag, Stdin: m.Stdin == nil || *m.Stdin, Share: true, Wait: true, Awaited: true,
	}
	if c.Timeout, err = deadlineOf(r); err != nil {
		return c, err
	}
	if c.Dir, err = p.path(m.Process.Cwd); err != nil {
		return c, err
	}
	if c.Env, err = p.environ(m.Process.Envs); err != nil {
		return c, err
	}
	if m.PTY != nil {
		if m.PTY.Size == nil {
			return c, wire.Fail(http.StatusBadRequest, "pty.size is missing")
		}
		c.Terminal = &api.CommandTerminal{Rows: m.PTY.Size.Rows, Cols: m.PTY.Size.Cols, Term: m.Process.Envs["TERM"]}
		c.Stdin = false
	}
	return c, nil
}

// follow streams what a command writes, and its end.
func (s *Server) follow(ctx context.Context, r *http.Request, p *place, st api.CommandStatus, f api.FollowRequest, out *stream) error {
	if err := out.send(eventMessage{processEvent{Start: &startEvent{pidOf(st)}}}); err != nil {
		return err
	}
	stop := s.keepAlive(out, eventMessage{processEvent{Keepalive: &struct{}{}}}, keepAliveOf(r))
	defer stop()
	timeout, _ := deadlineOf(r) // it was looked at
	return p.live.FollowCommand(ctx, f, func(e api.CommandEvent) error {
		if e.Ended == nil {
			return out.sendData(e.Stream, e.Data)
		}
		if err := outcome(*e.Ended, timeout); err != nil {
			return err
		}
		return out.send(eventMessage{processEvent{End: endOf(*e.Ended)}})
	})
}

// outcome is the error of a command that has not ended by itself; nil otherwise.
func outcome(e api.CommandEnd, timeout time.Duration) error {
	switch {
	case e.Outcome == messages.OutcomeDenied:
		return wire.Fail(http.StatusForbidden, "the command was denied, and what it did was put back: %s", e.Reason)
	case e.Outcome == messages.OutcomeFailed:
		return wire.Fail(http.StatusInternalServerError, "the step of the command failed: %s", e.Reason)
	case e.Outcome == messages.OutcomeCancelled && timeout > 0 && e.Duration >= timeout:
		return wire.Fail(http.StatusGatewayTimeout, "the command ran longer than %v and was ended; what it did is kept", timeout)
	}
	return nil
}

// endOf is how a command ended.
func endOf(e api.CommandEnd) *endEvent {
	if e.Signal != 0 {
		text := "signal: " + syscall.Signal(e.Signal).String()
		return &endEvent{ExitCode: -1, Status: text, Error: text}
	}
	end := &endEvent{ExitCode: e.ExitCode, Exited: e.ExitCode >= 0, Status: "exit status " + strconv.Itoa(e.ExitCode)}
	if e.ExitCode != 0 {
		end.Error = end.Status
	}
	return end
}

// keepAlive sends the message now and then, which says that the stream lives, until stop is called.
func (s *Server) keepAlive(out *stream, message any, each time.Duration) (stop func()) {
	done := make(chan struct{})
	tick := make(chan struct{}, 1)
	arm := func() func() bool {
		return s.o.Clock.AfterFunc(each, func() {
			select {
			case tick <- struct{}{}:
			default:
			}
		})
	}
	disarm := arm()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				disarm()
				return
			case <-tick:
				if out.send(message) != nil {
					return
				}
				disarm = arm()
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// connect streams what a command that runs writes from now on.
func (s *Server) connect(r *http.Request, p *place, message []byte, open func() *stream) error {
	var m processRequest
	if err := wire.Decode(message, &m); err != nil {
		return err
	}
	ctx, _, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	st, err := p.find(ctx, m.Process)
	if err != nil {
		return err
	}
	if timeout, err := deadlineOf(r); err != nil {
		return err
	} else if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return s.follow(ctx, r, p, st, api.FollowRequest{Number: st.Number, From: -1, Paced: true}, open())
}

// farPID is where numbers begin of commands whose process is not known.
const farPID = 1 << 30

// pidOf is what clients call a command.
func pidOf(st api.CommandStatus) uint32 {
	if st.PID > 0 {
		return uint32(st.PID)
	}
	return uint32(farPID + st.Number%farPID)
}

// find finds the newest command that is meant and has not ended.
func (p *place) find(ctx context.Context, m *selector) (api.CommandStatus, error) {
	if m == nil || m.PID == nil && m.Tag == "" {
		return api.CommandStatus{}, wire.Fail(http.StatusBadRequest, "process is missing: its pid or tag")
	}
	list, err := p.live.Commands(ctx)
	if err != nil {
		return api.CommandStatus{}, err
	}
	for _, st := range slices.Backward(list) {
		if st.Ended == nil && (m.PID != nil && pidOf(st) == *m.PID || m.PID == nil && st.Tag == m.Tag) {
			return st, nil
		}
	}
	if m.PID != nil {
		return api.CommandStatus{}, wire.Fail(http.StatusNotFound, "no process with pid %d runs", *m.PID)
	}
	return api.CommandStatus{}, wire.Fail(http.StatusNotFound, "no process with this tag runs")
}

// listProcesses lists the commands that run.
func (p *place) listProcesses(ctx context.Context) (any, error) {
	list, err := p.live.Commands(ctx)
	if err != nil {
		return nil, err
	}
	out := struct {
		Processes []processInfo `json:"processes"`
	}{[]processInfo{}}
	for _, st := range list {
		if st.Ended == nil && len(st.Argv) > 0 {
			out.Processes = append(out.Processes, processInfo{
				processConfig{Cmd: st.Argv[0], Args: api.OrEmpty(st.Argv[1:]), Envs: map[string]string{}, Cwd: st.Dir}, pidOf(st), st.Tag,
			})
		}
	}
	return out, nil
}

// processCall is a call about a command, and the command.
type processCall struct {
	processRequest
	of api.CommandStatus
}

// about carries out a call about a command that runs.
func (p *place) about(ctx context.Context, message []byte, do func(context.Context, processCall) error) (any, error) {
	var m processRequest
	if err := wire.Decode(message, &m); err != nil {
		return nil, err
	}
	st, err := p.find(ctx, m.Process)
	if err == nil {
		err = do(ctx, processCall{m, st})
	}
	return struct{}{}, err
}

// sendInput writes to a command.
func (p *place) sendInput(ctx context.Context, c processCall) error {
	return p.input(ctx, c.of, c.Input)
}

func (p *place) input(ctx context.Context, st api.CommandStatus, in *processInput) error {
	if in == nil {
		return wire.Fail(http.StatusBadRequest, "input is missing")
	}
	data := in.Stdin
	switch {
	case in.PTY != nil && !st.Terminal:
		return wire.Fail(http.StatusPreconditionFailed, "the process has no terminal: send stdin")
	case in.Stdin != nil && st.Terminal:
		return wire.Fail(http.StatusPreconditionFailed, "the process has a terminal: send pty")
	case in.PTY != nil:
		data = in.PTY
	}
	for piece := range slices.Chunk(data, api.CommandInputs) {
		if err := p.live.InputCommand(ctx, api.CommandInput{Number: st.Number, Data: piece}); err != nil {
			return err
		}
	}
	return nil
}

// sendSignal sends TERM or KILL.
func (p *place) sendSignal(ctx context.Context, c processCall) error {
	if c.Signal == 0 {
		return wire.Fail(http.StatusBadRequest, "signal is missing: SIGNAL_SIGTERM or SIGNAL_SIGKILL")
	}
	return p.live.SignalCommand(ctx, api.CommandSignal{Number: c.of.Number, Signal: int(c.Signal)})
}

// update sets the size of a terminal.
func (p *place) update(ctx context.Context, c processCall) error {
	if c.PTY == nil || c.PTY.Size == nil {
		return nil
	}
	return p.live.ResizeCommand(ctx, api.CommandSize{Number: c.of.Number, Rows: c.PTY.Size.Rows, Cols: c.PTY.Size.Cols})
}

// closeStdin ends the input of a command.
func (p *place) closeStdin(ctx context.Context, c processCall) error {
	if c.of.Terminal {
		return wire.Fail(http.StatusPreconditionFailed, "the process has a terminal: send it the byte 4 (Ctrl-D)")
	}
	return p.live.CloseInput(ctx, api.CommandNumber{Number: c.of.Number})
}

// streamInput writes to a command what comes in the frames of one request.
func (s *Server) streamInput(ctx context.Context, p *place, frames io.Reader) error {
	var to *api.CommandStatus
	for {
		message, err := readFrame(frames)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var m inputEvent
		if err := wire.Decode(message, &m); err != nil {
			return err
		}
		switch {
		case m.Start != nil:
			st, err := p.find(ctx, m.Start.Process)
			if err != nil {
				return err
			}
			to = &st
		case m.Data != nil && to == nil:
			return wire.Fail(http.StatusBadRequest, "the first message has to say which process is meant")
		case m.Data != nil:
			if err := p.input(ctx, *to, m.Data.Input); err != nil {
				return err
			}
		}
	}
}
