package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/machine"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Grace is how long a command has between TERM and KILL: when it is cancelled,
// and when its step fails and everything it writes does too.
const (
	cancelGrace = 2 * time.Second
	failGrace   = 500 * time.Millisecond
)

// Run implements [api.Runner].
func (s *Session) Run(ctx context.Context, r api.RunRequest) (api.RunResult, error) {
	return s.run(ctx, r, nil)
}

// run is Run of a command that may leave its step before it ends; nil: it does not.
func (s *Session) run(ctx context.Context, r api.RunRequest, leave *leaving) (api.RunResult, error) {
	if s.cfg.Runtime == nil {
		return api.RunResult{}, messages.ErrNoMachine
	}
	if len(r.Argv) == 0 {
		return api.RunResult{}, errors.New("no command given")
	}
	dir := r.Dir
	if dir == "" {
		dir = s.dirs[0].Config.Path
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return api.RunResult{}, err
	}
	defer s.outputs.Add(r)() // before it waits for anything: the caller may have made or emptied them just now
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.Asks {
		s.askers.Add(1)
		defer s.askers.Add(-1)
	}
	want := step.Open{
		Kind: step.Command, Share: r.Share, Cancel: cancel, Later: r.Question != "" && !r.Share, Last: r.Last, From: r.Origin,
		Info: undolog.StepInfo{Type: undolog.TypeCommand, Command: api.ShellQuote(r.Argv...), Argv: r.Argv, Dir: dir},
	}
	if r.Wait {
		want.Wait = step.Queue
	}
	if r.Queued != nil {
		want.Queued = func(w step.Running) { r.Queued(api.Waits(w)) }
	}
	if r.Question != "" && r.Share { // nobody waits for the answer but this command
		if res, err := s.allowed(ctx, r, want.Info); err != nil || res.Outcome != "" {
			return res, err
		}
	}
	lease, err := s.steps.Lease(ctx, want)
	if err != nil {
		return api.RunResult{}, err
	}
	defer s.steps.Leave(lease)
	if want.Later {
		if res, err := s.allowed(ctx, r, want.Info); err != nil || res.Outcome != "" {
			return res, err
		}
		if _, err = s.steps.Begin(lease); err != nil {
			return api.RunResult{}, err
		}
	}
	out := s.inside.enter(want, lease)
	reached, refused := s.allowance.Reached(), s.walled()
	status, how, runErr := s.execute(ctx, out, dir, r, leave)
	status.Limit = s.limitReached(status.Limit, reached)
	refusals := []string(nil)
	if status.Code != 0 {
		now := s.walled()
		refusals = append(now.since(refused, s.cfg.Runtime.Name()), s.concealed(r, dir, refused, now)...)
	}
	res, err := s.leaveOuter(ctx, out, status, how)
	res.Refused, res.Warnings = refusals, s.warned(res.Step)
	if res.Others > 0 && r.Last {
		s.stay(ctx, r, &res)
	}
	if runErr != nil && res.Outcome != messages.OutcomeFailed {
		return res, runErr
	}
	return res, errors.Join(runErr, err)
}

// leaveOuter ends the command's step, if it has one just now.
func (s *Session) leaveOuter(ctx context.Context, out *outer, st hypervisor.ExitStatus, how ending) (api.RunResult, error) {
	if out.gone {
		return out.ended(st, how), nil
	}
	if lease := s.inside.leave(out); lease != nil {
		defer s.steps.Leave(lease)
		how.group = s.inside.group()
		return s.finish(lease, out.open.Info.Command, out.open.From, st, how)
	}
	if out.open.Last { // what it has left behind inside ends its steps first
		if lease, err := s.steps.Lease(ctx, step.Open{Kind: step.Apply, Wait: step.Queue, Last: true}); err == nil {
			s.steps.Leave(lease)
		}
	}
	return out.ended(st, how), nil
}

// ended is the result of a command that has no step at its end.
func (o *outer) ended(st hypervisor.ExitStatus, how ending) api.RunResult {
	res := o.res
	res.Status, res.Entries = st, nil
	switch {
	case o.gone && (res.Outcome == messages.OutcomeDenied || res.Outcome == messages.OutcomeFailed): // its step was rolled back, which ended it
	case o.gone:
		res.Outcome, res.Reason = how.outcome, cmp.Or(how.failed, how.why)
	default:
		res.Outcome, res.Reason = how.outcome, how.failed
	}
	return res
}

// stay returns when the commands have ended that took part in the step of the last
// one: its end ends the session. The result is then that of the step.
func (s *Session) stay(ctx context.Context, r api.RunRequest, res *api.RunResult) {
	if r.Stays != nil {
		r.Stays(*res)
	}
	f, err := s.steps.Ended(ctx, res.Step)
	if err != nil { // it is not to wait any more
		return
	}
	res.Others = 0
	if f.Outcome != "" {
		res.Outcome, res.Reason, res.Left = f.Outcome, f.Reason, f.Left
	}
	res.Entries = s.entries(f)
}

// entries are what a step left, in the session's order: folders close at the same
// time.
func (s *Session) entries(f step.Finished) []api.RunEntry {
	var list []api.RunEntry
	for _, e := range f.Entries {
		list = append(list, api.RunEntry{Directory: e.Directory, Entry: *e.Entry})
	}
	slices.SortFunc(list, func(a, b api.RunEntry) int { return s.indexOf(a.Directory) - s.indexOf(b.Directory) })
	return list
}

// allowed asks a person whether the command may start. The result is empty if it
// may.
func (s *Session) allowed(ctx context.Context, r api.RunRequest, info undolog.StepInfo) (api.RunResult, error) {
	a, err := s.decided(ctx, &messages.Ask{
		Kind: messages.KindCommand, Directory: s.around(info.Dir), Command: info.Command, Count: 1, Message: r.Question, From: messages.Asker(r.Origin),
	})
	switch {
	case errors.Is(err, messages.ErrStopped):
		return api.RunResult{}, err
	case err != nil:
		return api.RunResult{Outcome: messages.OutcomeCancelled, Reason: "it was cancelled before it was allowed, and did not run"}, nil
	case !a.Allow:
		return api.RunResult{Outcome: messages.OutcomeDenied, Reason: fmt.Sprintf("%s: the command was not allowed by %s, and did not run", a.ID, a.By)}, nil
	}
	return api.RunResult{}, nil
}

// around returns the working folder that a directory is in, or the first.
func (s *Session) around(dir string) string {
	for _, w := range s.dirs {
		if lexical.Within(dir, w.Config.Path) {
			return w.Config.Path
		}
	}
	return s.dirs[0].Config.Path
}

// ending says how a command ended.
type ending struct {
	outcome string // "completed" or "cancelled"
	why     string // it was cancelled, for people
	failed  string // why the step must be rolled back
	quiet   bool   // no process is left
	// unstarted: it was cancelled before it was known to run.
	unstarted bool
	group     undolog.StepID // that the step is in, or 0
}

// execute starts the command and waits for its end.
func (s *Session) execute(ctx context.Context, out *outer, dir string, r api.RunRequest, leave *leaving) (st hypervisor.ExitStatus, how ending, err error) {
	first := out.lease.Step
	cmd := hypervisor.Command{
		ID: s.commands.Add(1), Step: int64(first), Argv: r.Argv, Env: r.Env, Dir: dir,
		Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, TTY: r.TTY, Further: r.Further, Ignored: r.Ignored, Limits: r.Limits,
	}
	p, err := s.startCommand(ctx, cmd)
	if err != nil {
		if ctx.Err() != nil { // it may have run for a moment
			return st, ending{outcome: messages.OutcomeCancelled, unstarted: true, quiet: s.nobodyLeft()}, err
		}
		return st, ending{outcome: messages.OutcomeFailed, quiet: true}, err
	}
	s.inside.attach(out, p.PID(), func() { _ = p.Cancel(failGrace) })
	if r.Started != nil {
		r.Started(first, p)
	}
	return s.await(ctx, p, r.Timeout, func() (hypervisor.ExitStatus, error) { return leave.while(ctx, s, out, p) })
}

// await returns when a command that runs has ended, which the end of ctx or of its time brings about. wait is how its end is waited for: it has no deadline, as a cancelled command ends, or its guest does.
func (s *Session) await(ctx context.Context, p hypervisor.Process, timeout time.Duration, wait func() (hypervisor.ExitStatus, error)) (st hypervisor.ExitStatus, how ending, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it ran longer than %v", timeout))
		defer cancel()
	}
	how.outcome = messages.OutcomeCompleted
	stop := context.AfterFunc(ctx, func() {
		s.to("machine")(&machine.Release{}) // or it would not end before the decision
		_ = p.Cancel(cancelGrace)
	})
	st, err = wait()
	if !stop() {
		how.outcome = messages.OutcomeCancelled
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			how.why = cause.Error()
		}
	}
	if err != nil {
		how.failed = "the command was lost: " + err.Error()
		return st, how, err
	}
	how.quiet = st.Alone || s.nobodyLeft()
	return st, how, nil
}

// startCommand returns when the command runs.
func (s *Session) startCommand(ctx context.Context, cmd hypervisor.Command) (hypervisor.Process, error) {
	if guest := s.slot.Active(); guest != nil {
		return machine.Run(ctx, guest, cmd, s.cfg.Logger)
	}
	// The wait has no deadline, the start has: a command that started after all
	// would run outside of its step, with files that its caller has closed.
	return ask(context.WithoutCancel(ctx), s, "machine", func(reply *messages.Reply[hypervisor.Process]) any {
		return &machine.Exec{Context: ctx, Command: cmd, Reply: reply}
	})
}

// nobodyLeft reports whether the guest knows that no process of any command is
// alive that could still write.
func (s *Session) nobodyLeft() bool {
	g, ok := s.slot.Guest().(hypervisor.ProcessCounter)
	if !ok {
		return false
	}
	n, err := g.Processes()
	return err == nil && n == 0
}

// finish ends the command, and closes or rolls back the step if it was the last in
// it.
func (s *Session) finish(lease *step.Lease, command string, from api.Origin, st hypervisor.ExitStatus, how ending) (api.RunResult, error) {
	id := lease.Step
	result := undolog.StepResult{Status: how.outcome, Group: how.group}
	if how.outcome != messages.OutcomeFailed && how.failed == "" && !how.unstarted {
		code := st.Code
		result.ExitCode = &code
	}
	res := api.RunResult{Step: id, Status: st, Outcome: how.outcome, Reason: how.failed}
	f, err := s.steps.Finish(step.Finish{Lease: lease, Result: result, Failed: how.failed, Quiet: how.quiet})
	done := api.Event{Type: api.EventStepCompleted, Step: id, Origin: from, Command: command, ExitCode: result.ExitCode}
	if err != nil {
		res.Outcome, res.Reason = messages.OutcomeFailed, err.Error()
	} else {
		res.Outcome, res.Reason, res.Left, res.Others = f.Outcome, f.Reason, f.Left, f.Others
		done.Others = f.Others
		if f.Outcome == messages.OutcomeCancelled {
			res.Reason = how.why
		}
		res.Entries = s.entries(f)
	}
	s.stepEnded(done, res)
	if err == nil && (f.Outcome == messages.OutcomeDenied || f.Outcome == messages.OutcomeFailed) {
		s.notifyGuest(id)
	}
	return res, err
}

// indexOf is the folder's place in the session.
func (s *Session) indexOf(path string) int {
	return slices.IndexFunc(s.dirs, func(w *directory.Directory) bool { return w.Config.Path == path })
}

// stepEnded announces the end of a step, in each folder that it changed.
func (s *Session) stepEnded(e api.Event, res api.RunResult) {
	e.Message, e.Outcome = res.Outcome, res.Outcome
	if res.Reason != "" {
		e.Message += ": " + res.Reason
	}
	for i, r := range res.Entries {
		one := e
		one.Directory, one.Entry, one.AffectedCount, one.Last = r.Directory, &r.Entry, r.Entry.AffectedCount, i == len(res.Entries)-1
		s.logStepEnd(one)
		s.bus.Emit(one)
	}
	if len(res.Entries) == 0 {
		e.Last = true
		s.logStepEnd(e)
		s.bus.Emit(e)
	}
}

// notifyGuest tells programs inside that steps were rolled back.
func (s *Session) notifyGuest(ids ...undolog.StepID) {
	g := s.slot.Guest()
	if g == nil {
		return
	}
	for _, id := range ids {
		if err := g.RollbackNotify(int64(id)); err != nil {
			s.cfg.Logger.Warn("programs inside were not told of a rollback", "component", "session", "step_id", int64(id), "err", err)
		}
	}
}

// Subscribe implements [api.Runner]. The first subscriber also gets what happened
// while the session started.
func (s *Session) Subscribe(f func(api.Event), only ...api.EventType) (cancel func()) {
	return s.bus.Subscribe(f, only...)
}

// Observe is Subscribe for what measures and shows nothing: it does not take
// from the first subscriber what happened before.
func (s *Session) Observe(f func(api.Event)) (cancel func()) { return s.bus.Observe(f) }

func stepID(id int64) undolog.StepID { return undolog.StepID(id) }
