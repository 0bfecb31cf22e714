package stdio

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// run is one command of ours.
type run struct {
	sess   *session
	rq     *request
	cancel context.CancelCauseFunc
	// begun is closed when event.step_started is queued, drained when all output
	// is, ended when the last event.step_completed is.
	begun, drained, ended chan struct{}
	missed                chan struct{} // events were dropped
	beginOnce, endOnce    sync.Once
	lostOnce              sync.Once
	step                  undolog.StepID // set before begun is waited for
	kept                  frontend.Transcript
}

func (r *run) begin()  { r.beginOnce.Do(func() { close(r.begun) }) }
func (r *run) finish() { r.endOnce.Do(func() { close(r.ended) }) }
func (r *run) lost()   { r.lostOnce.Do(func() { close(r.missed) }) }

// awaitOutput returns when the output is queued.
func (r *run) awaitOutput() {
	select {
	case <-r.drained:
	case <-r.sess.ctx.Done():
	}
}

// execute runs a command as a step.
func execute(ctx context.Context, rq *request, p *ExecuteRequest) (ExecuteResult, error) {
	argv, err := arguments(p.Command, p.Argv)
	if err != nil {
		return ExecuteResult{}, err
	}
	return runCommand(ctx, rq, command{
		argv: argv, directory: p.Directory, cwd: p.CWD, env: p.Env, stdin: p.Stdin,
		timeout: p.TimeoutSeconds, wait: p.Wait, parallel: p.Parallel, tool: "agent.execute", stdout: EventTerminalOutput,
	})
}

// arguments are those of a command that is given as text or as a list.
func arguments(command string, argv []string) ([]string, error) {
	switch {
	case command == "" && len(argv) == 0:
		return nil, fieldError(MissingField, "command", "is required (or argv)")
	case command != "" && len(argv) > 0:
		return nil, fieldError(InvalidField, "argv", "give either command or argv")
	case command != "":
		return []string{"sh", "-c", command}, nil
	case argv[0] == "":
		return nil, fieldError(InvalidField, "argv[0]", "is empty")
	}
	return argv, nil
}

// prompt gives a prompt to the agent command.
func prompt(ctx context.Context, rq *request, p *PromptRequest) (ExecuteResult, error) {
	argv := rq.s.o.AgentCommand
	if len(argv) == 0 {
		return ExecuteResult{}, &Error{
			Code: NoAgent, Message: "agent.prompt: no agent command is configured; set agent.command (docs/configuration.md), or use agent.execute",
		}
	}
	return runCommand(ctx, rq, command{
		argv: argv, directory: p.Directory, cwd: p.CWD, env: p.Env, stdin: p.Prompt,
		timeout: p.TimeoutSeconds, wait: p.Wait, parallel: p.Parallel, tool: "agent.prompt", stdout: EventAgentOutput,
	})
}

// command is what both have in common.
type command struct {
	argv         []string
	directory    string
	cwd          string
	env          map[string]string
	stdin        string
	timeout      float64
	wait         bool
	parallel     bool
	tool, stdout string // stdout is the event for that stream
}

func (c *command) request(sess *session) (r api.RunRequest, err error) {
	if err := checkSeconds("timeout_seconds", c.timeout); err != nil {
		return r, err
	}
	dir, err := sess.folders.Dir(c.directory, c.cwd)
	if errors.Is(err, api.ErrOutside) {
		return r, fieldError(OutsideWorkingDirectory, "cwd", "%v", err)
	}
	if err != nil {
		return r, err
	}
	env, err := frontend.Environ(sess.s.o.Environ, c.env)
	if err != nil {
		return r, fieldError(InvalidField, "env", "%v", err)
	}
	r = api.RunRequest{Argv: c.argv, Dir: dir, Env: env, Timeout: sess.s.o.DefaultTimeout, Wait: c.wait, Share: c.parallel}
	if c.timeout > 0 {
		r.Timeout = max(seconds(c.timeout), 1)
	}
	return r, nil
}

// lineUp lets commands come in the order in which they were sent. waits says
// that this one is willing to.
func (rq *request) lineUp(ctx context.Context, waits bool) error {
	before := rq.behind
	rq.behind = nil
	if before == nil {
		return nil
	}
	select {
	case <-before.entered:
		return nil
	default:
	}
	if p, ok := before.payload.(interface{ mayWait() bool }); ok && p.mayWait() && !waits {
		return messages.ErrBusy // with it as much as with the one that it waits for
	}
	select {
	case <-before.entered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *ExecuteRequest) mayWait() bool { return p.Wait }
func (p *PromptRequest) mayWait() bool  { return p.Wait }

// runCommand runs the command and relays its output.
func runCommand(ctx context.Context, rq *request, c command) (ExecuteResult, error) {
	if c.parallel { // it waits for nobody who came before, and nobody for it
		rq.behind = nil
		rq.enter()
	}
	if err := rq.lineUp(ctx, c.wait); err != nil {
		return ExecuteResult{}, err
	}
	sess := rq.s.current()
	if sess == nil {
		return ExecuteResult{}, &Error{Code: NoSession, Message: rq.op.name + ": there is no session; send session.start first"}
	}
	req, err := c.request(sess)
	if err != nil {
		return ExecuteResult{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{
		sess: sess, rq: rq, cancel: cancel,
		begun: make(chan struct{}), drained: make(chan struct{}), ended: make(chan struct{}), missed: make(chan struct{}),
	}
	defer sess.conn.End(rq.id)
	sess.register(r)
	defer sess.unregister(r)
	req.Origin = api.Origin{Frontend: decider, RequestID: rq.id, Tool: c.tool}
	pipes, err := openPipes(c.stdin)
	if err != nil {
		return ExecuteResult{}, err
	}
	defer pipes.close()
	req.Stdin, req.Stdout, req.Stderr = pipes.stdin, pipes.stdout.w, pipes.stderr.w
	var relays sync.WaitGroup
	req.Started = func(id undolog.StepID, _ hypervisor.Process) {
		rq.enter()
		sess.conn.Begin(rq.id, rq.cancel) // until now it was in the queue
		r.step = id
		for _, o := range []struct {
			p            *pipe
			stream, name string
		}{{pipes.stdout, "stdout", c.stdout}, {pipes.stderr, "stderr", EventTerminalOutput}} {
			relays.Add(1)
			go func() {
				defer relays.Done()
				r.relay(o.p, o.stream, o.name)
			}()
		}
	}
	class, warnings := sess.classify(rq.id, c)
	begin := rq.s.clock.Now()
	res, err := sess.live.Run(ctx, req)
	pipes.commandEnded()
	relays.Wait()
	r.kept.Keep(sess.live, res.Step, c.argv, begin)
	close(r.drained)
	if res.Step != 0 {
		r.awaitEnd()
	}
	out := executeResult(res, rq.s.clock.Now().Sub(begin))
	out.Class, out.Warnings = class, warnings
	rq.logs(slog.LevelInfo, "command ended", "step_id", int64(res.Step), "outcome", res.Outcome, "exit_code", res.Status.Code, "err", err)
	return out, r.verdict(ctx, out, err)
}

// classify tells of what looks suspicious about a command before it runs.
func (sess *session) classify(id string, c command) (class string, warnings []Suspicion) {
	if sess.s.o.Classify == nil || c.tool == "agent.prompt" { // that is the configuration's own command
		return "", nil
	}
	class, warnings = sess.s.o.Classify(c.argv)
	for _, w := range warnings {
		sess.send(EventWarning, Warning{Code: w.Code, Message: w.Message, RequestID: id, At: sess.s.clock.Now()})
	}
	return class, warnings
}

func (sess *session) register(r *run) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.runs[r.rq.id] = r
}

func (sess *session) unregister(r *run) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	delete(sess.runs, r.rq.id)
}

// awaitEnd returns when the events of the step are queued. Events that were
// dropped are not waited for.
func (r *run) awaitEnd() {
	missed := r.missed
	var given chan struct{}
	for {
		select {
		case <-r.ended:
			return
		case <-r.sess.ctx.Done():
			return
		case <-given:
			return
		case <-missed:
			missed = nil
			given = make(chan struct{})
			stop := r.sess.s.clock.AfterFunc(lostPatience, func() { close(given) })
			defer stop()
		}
	}
}

func executeResult(res api.RunResult, took time.Duration) ExecuteResult {
	if d := res.Status.Duration; d > 0 {
		took = d
	}
	out := ExecuteResult{
		StepID: int64(res.Step), Signal: res.Status.Signal,
		Outcome: res.Outcome, Reason: res.Reason, OthersRunning: res.Others, DurationMS: int64(math.Round(float64(took) / 1e6)),
		Refused: frontend.AllTold(res.Refused),
	}
	lost := res.Outcome == messages.OutcomeFailed && res.Status == hypervisor.ExitStatus{}
	if res.Step != 0 && !lost {
		out.ExitCode = &res.Status.Code
	}
	for _, e := range res.Entries {
		out.AffectedCount += e.Entry.AffectedCount
		out.Directories = append(out.Directories, StepChange{e.Directory, api.OrEmpty(e.Entry.AffectedPaths), e.Entry.AffectedCount})
	}
	return out
}

// verdict is the error of a command that did not simply end.
func (r *run) verdict(ctx context.Context, out ExecuteResult, err error) error {
	var start *hypervisor.StartError
	switch {
	case errors.As(err, &start):
		if start.NoDirectory {
			return &Error{Code: InvalidField, Field: "cwd", Message: "cwd: " + err.Error(), Data: out}
		}
		out.ExitCode = &start.ExitCode
		return &Error{Code: CommandNotFound, Message: err.Error(), Data: out}
	case err != nil && out.StepID == 0:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	switch out.Outcome {
	case messages.OutcomeDenied:
		return &Error{Code: Denied, Message: reason(out, "a safeguard was denied; the step was rolled back"), Data: out}
	case messages.OutcomeFailed:
		if ctx.Err() != nil {
			return &Error{Code: Cancelled, Message: context.Cause(ctx).Error() + "; the step was rolled back", Data: out}
		}
		if errors.Is(err, messages.ErrNoMachine) {
			return &Error{Code: Unavailable, Message: err.Error() + "; session.reset starts another", Data: out}
		}
		return &Error{Code: StepFailed, Message: reason(out, "the step failed and was rolled back"), Data: out}
	case messages.OutcomeCancelled:
		if ctx.Err() == nil && out.Reason == messages.ErrReset.Error() {
			return &Error{Code: SessionReset, Message: out.Reason + "; what the command did is kept", Data: out}
		}
		if ctx.Err() == nil {
			return &Error{Code: Timeout, Message: "the command was cancelled: its time was up; what it did is kept", Data: out}
		}
		return &Error{Code: Cancelled, Message: context.Cause(ctx).Error() + "; what the command did is kept", Data: out}
	}
	return err
}

func reason(out ExecuteResult, otherwise string) string {
	if out.Reason != "" {
		return out.Reason
	}
	return otherwise
}

// cancelRequests cancels one request, or all commands.
func cancelRequests(_ context.Context, rq *request, p *CancelRequest) (CancelResult, error) {
	s := rq.s
	out := CancelResult{Cancelled: []string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.TargetRequestID == "" {
		for id, other := range s.inflight {
			if other.op.flags&runs != 0 {
				other.cancel(errCancelled)
				out.Cancelled = append(out.Cancelled, id)
			}
		}
		slices.Sort(out.Cancelled)
		return out, nil
	}
	target := s.inflight[p.TargetRequestID]
	switch {
	case target == nil:
		return out, fieldError(NotFound, "target_request_id", "no request %q is in flight", frontend.Short([]byte(p.TargetRequestID)))
	case target.op.flags&cancels == 0:
		return out, fieldError(InvalidField, "target_request_id", "%s cannot be cancelled: it takes effect as a whole", target.op.name)
	}
	target.cancel(errCancelled)
	return CancelResult{[]string{p.TargetRequestID}}, nil
}
