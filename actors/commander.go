package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/command"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// ownedSet holds the commands of a session that have not ended ([api.Commander]). Methods are safe for concurrent use.
type ownedSet struct {
	ctx    context.Context // ends when the session begins to: nobody waits for a reader any more
	end    context.CancelFunc
	mu     sync.Mutex
	closed bool
	set    map[*owned]struct{}
	active sync.WaitGroup
}

func newOwnedSet() *ownedSet {
	o := &ownedSet{set: map[*owned]struct{}{}}
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// enter notes a command; leave is called at its end.
func (o *ownedSet) enter(c *owned) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return messages.ErrEnding
	}
	o.set[c] = struct{}{}
	o.active.Add(1)
	return nil
}

func (o *ownedSet) leave(c *owned) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.set, c)
	o.active.Done()
}

// endSteps takes no more commands, cancels those that are in a step, and returns when none is, or ctx has ended. Services go on until their guest ends.
func (o *ownedSet) endSteps(ctx context.Context) {
	o.mu.Lock()
	o.closed = true
	var list []*owned
	for c := range o.set {
		list = append(list, c)
	}
	o.mu.Unlock()
	o.end()
	for _, c := range list {
		if !c.inStep() {
			continue
		}
		c.cancel(messages.ErrEnding)
		select {
		case <-c.out:
		case <-ctx.Done():
			return
		}
	}
}

// owned is one command of the session.
type owned struct {
	s      *Session
	req    api.CommandRequest
	number int64
	cancel context.CancelCauseFunc
	began  time.Time
	begun  chan startedCommand // has room for one: whether it runs
	once   sync.Once           // begun is told
	out    chan struct{}       // closed when it is in no step any more
	leaves sync.Once           // out is closed

	stdin, stdinInner *os.File // the end that is written to, and the command's
	streams           []*stream
	readers           sync.WaitGroup
	kept              frontend.Transcript // of its step
}

type startedCommand struct {
	status api.CommandStatus
	err    error
}

// stream is one of a command's outputs.
type stream struct {
	name  string
	r, w  *os.File // w is the command's; nil for a terminal
	at    int64    // read so far
	ended bool
}

// StartCommand implements [api.Commander].
func (s *Session) StartCommand(ctx context.Context, r api.CommandRequest) (api.CommandStatus, error) {
	if err := r.Validate(); err != nil {
		return api.CommandStatus{}, err
	}
	if s.cfg.Runtime == nil {
		return api.CommandStatus{}, messages.ErrNoMachine
	}
	if r.Dir == "" {
		r.Dir = s.dirs[0].Config.Path
	} else if !path.IsAbs(hypervisor.GuestPath(r.Dir)) {
		return api.CommandStatus{}, fmt.Errorf("%w: %q is no absolute path; name the directory to start in from the root", api.ErrCommand, r.Dir)
	}
	run, cancel := context.WithCancelCause(context.Background())
	c := &owned{s: s, req: r, cancel: cancel, began: s.clock.Now(), begun: make(chan startedCommand, 1), out: make(chan struct{})}
	if err := s.owners.enter(c); err != nil {
		return api.CommandStatus{}, err
	}
	number, err := s.owned.Begin(ctx, r, cancel)
	if err != nil {
		s.owners.leave(c)
		return api.CommandStatus{}, err
	}
	c.number = number
	go c.run(run)
	select {
	case st := <-c.begun:
		return st.status, st.err
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		<-c.begun // it may have begun at the same moment: then it is cancelled
		return api.CommandStatus{}, context.Cause(ctx)
	}
}

// run runs the command to its end, and says how that was.
func (c *owned) run(ctx context.Context) {
	defer c.s.owners.leave(c)
	defer c.cancel(nil)
	defer c.left()
	idle := c.s.busy()
	defer idle()
	req, err := c.open()
	if err != nil {
		c.failed(err)
		return
	}
	var res api.RunResult
	if c.req.Service {
		res, err = c.beside(ctx, req)
	} else {
		res, err = c.s.run(ctx, req, c.leaving())
	}
	service := !c.inStep()
	c.close()
	if !service {
		c.keep(res.Step)
	}
	c.left()
	end := c.ended(res, err)
	if c.failed(notBegun(ctx, res, err)) {
		return
	}
	st, err := c.s.owned.Ended(c.number, end)
	if err == nil && st.Service != "" {
		is := asService(st)
		c.s.bus.Emit(api.Event{Type: api.EventServiceEnded, Directory: c.s.around(st.Dir), Command: is.Command, ExitCode: is.ExitCode, Service: &is})
	}
}

// busy says that something keeps the session from being idle, until the returned function is called.
func (s *Session) busy() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle.Busy()
}

// notBegun is why a command has not begun.
func notBegun(ctx context.Context, res api.RunResult, err error) error {
	switch {
	case err != nil:
		return err
	case res.Outcome == messages.OutcomeDenied:
		return fmt.Errorf("%w: %s", messages.ErrDenied, res.Reason)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("the command did not start: %s", res.Reason)
}

// failed tells who waits for the start that there is none. It reports false if the command has begun.
func (c *owned) failed(err error) (is bool) {
	c.once.Do(func() {
		is = true
		_, _ = c.s.owned.Ended(c.number, nil) // it fails only if the session has ended
		c.begun <- startedCommand{err: err}
	})
	return is
}

// open makes the streams, and what the command is run with.
func (c *owned) open() (api.RunRequest, error) {
	r := c.req
	req := api.RunRequest{
		Argv: r.Argv, Env: r.Env, Dir: r.Dir, Timeout: r.Timeout, Share: r.Share, Wait: r.Wait, Origin: r.Origin, Started: c.started,
	}
	if t := r.Terminal; t != nil {
		req.TTY = &hypervisor.TTY{Rows: t.Rows, Cols: t.Cols, Term: t.Term}
		return req, nil
	}
	if r.Stdin {
		in, out, err := os.Pipe()
		if err != nil {
			return req, err
		}
		c.stdinInner, c.stdin = in, out
		if err := block(in); err != nil {
			return req, err
		}
		req.Stdin = in
	}
	for _, name := range []string{api.StreamStdout, api.StreamStderr} {
		out, in, err := frontend.Pipe()
		if err == nil {
			c.streams = append(c.streams, &stream{name: name, r: out, w: in})
			err = block(in)
		}
		if err != nil {
			c.close()
			return req, err
		}
	}
	req.Stdout, req.Stderr = c.streams[0].w, c.streams[1].w
	return req, nil
}

// started is told that the command runs.
func (c *owned) started(step undolog.StepID, p hypervisor.Process) {
	in := c.stdin
	if t := p.Terminal(); t != nil {
		in = t
		c.streams = append(c.streams, &stream{name: api.StreamTerminal, r: t})
	}
	st := api.CommandStatus{State: api.CommandRunning, Step: step, StartedAt: c.s.clock.Now(), PID: p.PID()}
	if c.req.Service {
		st.State, st.Service = api.CommandService, serviceName(c.number)
	}
	now, err := c.s.owned.Started(c.number, command.Start{Status: st, Process: p, Input: in})
	if err != nil { // the session has ended
		_ = in.Close() // of a nil file is an error only
	}
	for _, s := range c.streams {
		c.readers.Go(func() { c.read(s) })
	}
	if st.Service != "" && err == nil {
		c.announce(now)
	}
	c.once.Do(func() { c.begun <- startedCommand{now, err} })
}

// announce says that the command is a service from now on.
func (c *owned) announce(st api.CommandStatus) {
	is := asService(st)
	c.s.bus.Emit(api.Event{Type: api.EventServiceStarted, Directory: c.s.around(st.Dir), Command: is.Command, Service: &is})
}

// read tells of what comes on a stream.
func (c *owned) read(s *stream) {
	ctx := c.s.owners.ctx
	s.ended = readOut(s.r, func(b []byte) {
		if len(b) == 0 {
			return
		}
		if c.inStep() {
			_, _ = c.kept.Write(b) // it never fails
		}
		if c.s.owned.Wrote(ctx, c.number, s.at, s.name, append([]byte(nil), b...)) == nil {
			s.at += int64(len(b))
		}
	})
}

// close ends the streams: what the command has written is read; what it has left behind writes to nobody.
func (c *owned) close() {
	for _, f := range []*os.File{c.stdin, c.stdinInner} { // in this order: what copies to a machine waits for the end of it, and the second for that
		_ = f.Close() // of a nil file is an error only
	}
	for _, s := range c.streams {
		if s.w != nil {
			_ = s.w.Close() // not before: a machine's output is copied to it
		}
		_ = s.r.SetReadDeadline(time.Now().Add(drain))
	}
	c.readers.Wait()
	for _, s := range c.streams {
		if s.ended || s.w == nil {
			_ = s.r.Close()
			continue
		}
		go func() { // somebody has it open still, and shall not fail for that
			_ = s.r.SetReadDeadline(time.Time{})
			_, _ = io.Copy(io.Discard, s.r)
			_ = s.r.Close()
		}()
	}
}

// beside runs the command as a service.
func (c *owned) beside(ctx context.Context, r api.RunRequest) (res api.RunResult, err error) {
	c.left()
	p, err := c.s.startCommand(ctx, hypervisor.Command{
		ID: c.s.commands.Add(1), Argv: r.Argv, Env: r.Env, Dir: r.Dir, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, TTY: r.TTY,
	})
	if err != nil {
		return res, err
	}
	r.Started(0, p)
	st, how, err := c.s.await(ctx, p, r.Timeout, func() (hypervisor.ExitStatus, error) { return p.Wait(context.WithoutCancel(ctx)) })
	return api.RunResult{Status: st, Outcome: how.outcome, Reason: cmp.Or(how.failed, how.why)}, err
}

// inStep tells whether the command is in a step, or will be.
func (c *owned) inStep() bool {
	select {
	case <-c.out:
		return false
	default:
		return true
	}
}

// left says that the command is in no step any more.
func (c *owned) left() { c.leaves.Do(func() { close(c.out) }) }

// leaving is when the command leaves its step; nil: not before its end.
func (c *owned) leaving() *leaving {
	after := c.req.ServiceAfter
	if after == 0 {
		after = c.s.cfg.Timing.ServiceAfter
	}
	if after < 0 {
		return nil
	}
	return &leaving{after: after, left: func(res api.RunResult) {
		c.left()
		c.keep(res.Step)
		st, err := c.s.owned.Left(c.number, serviceName(c.number))
		if err == nil {
			c.announce(st)
		}
	}}
}

// keep gives what the command has written in its step to the history.
func (c *owned) keep(step undolog.StepID) { c.kept.Keep(c.s, step, c.req.Argv, c.began) }

// ended says how the command ended.
func (c *owned) ended(res api.RunResult, err error) *api.CommandEnd {
	e := &api.CommandEnd{
		At: c.s.clock.Now(), ExitCode: res.Status.Code, Signal: res.Status.Signal, Duration: res.Status.Duration,
		Outcome: res.Outcome, Reason: res.Reason, Left: res.Left, Refused: res.Refused,
	}
	for _, r := range res.Entries {
		e.Affected += r.Entry.AffectedCount
	}
	if err != nil { // its guest has ended before it
		e.ExitCode = -1
		e.Reason = cmp.Or(e.Reason, err.Error())
		e.Outcome = cmp.Or(e.Outcome, messages.OutcomeFailed)
	}
	return e
}

// Commands implements [api.Commander].
func (s *Session) Commands(ctx context.Context) ([]api.CommandStatus, error) {
	return s.owned.List(ctx)
}

// FollowCommand implements [api.Commander].
func (s *Session) FollowCommand(ctx context.Context, r api.FollowRequest, emit func(api.CommandEvent) error) error {
	return s.owned.Follow(ctx, r, emit)
}

// InputCommand implements [api.Commander].
func (s *Session) InputCommand(ctx context.Context, r api.CommandInput) error {
	if err := r.Validate(); err != nil || len(r.Data) == 0 {
		return err
	}
	return s.owned.Give(ctx, r.Number, append([]byte(nil), r.Data...), false)
}

// CloseInput implements [api.Commander].
func (s *Session) CloseInput(ctx context.Context, r api.CommandNumber) error {
	return s.owned.Give(ctx, r.Number, nil, true)
}

// SignalCommand implements [api.Commander].
func (s *Session) SignalCommand(ctx context.Context, r api.CommandSignal) error {
	if err := r.Validate(); err != nil {
		return err
	}
	h, err := s.owned.Find(ctx, r.Number)
	if err != nil {
		return err
	}
	return commandError(r.Number, h.Process.Signal(r.Signal))
}

// ResizeCommand implements [api.Commander].
func (s *Session) ResizeCommand(ctx context.Context, r api.CommandSize) error {
	if err := r.Validate(); err != nil {
		return err
	}
	h, err := s.owned.Find(ctx, r.Number)
	switch {
	case err != nil:
		return err
	case !h.Status.Terminal:
		return fmt.Errorf("%w %d has no terminal", api.ErrCommand, r.Number)
	}
	return commandError(r.Number, h.Process.Resize(r.Rows, r.Cols))
}

// commandError is the error of a command that ends just now.
func commandError(number int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w %d: %w", api.ErrCommand, number, err)
}

// StopCommand implements [api.Commander].
func (s *Session) StopCommand(ctx context.Context, r api.CommandNumber) (api.CommandStatus, error) {
	h, err := s.owned.Find(ctx, r.Number)
	switch {
	case err == nil:
		h.Cancel(context.Canceled)
	case errors.Is(err, api.ErrNoCommand) || !errors.Is(err, api.ErrCommand):
		return api.CommandStatus{}, err
	}
	return s.owned.WaitEnd(ctx, r.Number)
}

// servicePrefix begins the name of a service that is a command of the session.
const servicePrefix = "command-"

func serviceName(number int64) string { return servicePrefix + strconv.FormatInt(number, 10) }

// numberOf is the number of the command that a service of that name is; false if there can be none.
func numberOf(name string) (int64, bool) {
	text, is := strings.CutPrefix(name, servicePrefix)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, is && err == nil && serviceName(n) == name
}

// asService is a command as [api.Services] has it.
func asService(st api.CommandStatus) api.ServiceStatus {
	v := api.ServiceStatus{
		Name: st.Service, Command: api.ShellQuote(st.Argv...), Dir: st.Dir, State: api.ServiceRunning, StartedAt: st.StartedAt, OutputBytes: st.OutputBytes,
	}
	if e := st.Ended; e != nil {
		v.State, v.EndedAt = api.ServiceEnded, &e.At
		if e.ExitCode >= 0 {
			v.ExitCode = &e.ExitCode
		}
	}
	return v
}
