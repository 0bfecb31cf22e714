package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

type commandInput struct {
	where
	Command   string            `json:"command" jsonschema:"shell command, run by sh -c; pipes, redirections and several lines are fine"`
	Cwd       string            `json:"cwd,omitempty" jsonschema:"directory to run it in, relative to the working folder; default: the folder itself"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"environment variables to set in addition"`
	Timeout   float64           `json:"timeout_seconds,omitempty" jsonschema:"end the command after this time; default 120"`
	MaxOutput int               `json:"max_output_bytes,omitempty" jsonschema:"how much of stdout and of stderr to return at most, beginning and end; default 32768"`
}

func (in commandInput) about() (directory, path string) { return in.Directory, in.Cwd }

// CommandResult is what execute_command returns.
type CommandResult struct {
	Outcome         string    `json:"outcome" jsonschema:"completed, cancelled (timeout or request; changes are kept), denied or failed (changes were rolled back), pending_approval"`
	ExitCode        *int      `json:"exit_code,omitempty" jsonschema:"exit status; 128+n if signal n ended the command; absent if it did not end"`
	Stdout          string    `json:"stdout"`
	Stderr          string    `json:"stderr"`
	StdoutBytes     int64     `json:"stdout_bytes" jsonschema:"length of all that was written"`
	StderrBytes     int64     `json:"stderr_bytes"`
	StdoutTruncated bool      `json:"stdout_truncated" jsonschema:"the middle is left out"`
	StderrTruncated bool      `json:"stderr_truncated"`
	TimedOut        bool      `json:"timed_out"`
	Step            int64     `json:"step_id" jsonschema:"the step to undo; 0 if none was made"`
	ChangedPaths    []string  `json:"changed_paths" jsonschema:"some of the paths that it changed; absolute outside the call's working folder"`
	ChangedCount    int       `json:"changed_count" jsonschema:"how many paths it changed"`
	Undoable        bool      `json:"undoable" jsonschema:"false if the step grew too large to be kept"`
	OthersRunning   int       `json:"others_running,omitempty" jsonschema:"other commands run on in the step: it is still open, and what changed is not listed yet"`
	Reason          string    `json:"reason,omitempty" jsonschema:"why it was cancelled, denied or failed"`
	DurationSeconds float64   `json:"duration_seconds"`
	Refused         []string  `json:"refused,omitempty" jsonschema:"if it failed: what the sandbox refused while it ran, and the flag that the user could start it with; you cannot change that"`
	Class           string    `json:"classification,omitempty" jsonschema:"what the command seems to do: read_only, write or destructive; advice only"`
	Warnings        []string  `json:"warnings,omitempty" jsonschema:"what looks suspicious about the command's text, and what the session warned of in the step"`
	Approval        *Approval `json:"approval,omitempty" jsonschema:"set if outcome is pending_approval"`
}

func (s *Server) addCommandTools() {
	addRaw(s, definition{
		name: "execute_command", description: descCommand,
		hints: hints{title: "Run a shell command", destructive: true, open: true},
		limits: map[string]func(*jsonschema.Schema){
			"timeout_seconds": between(0, MaxTimeout.Seconds()), "max_output_bytes": between(0, maxKeptOutput),
		},
	}, s.executeCommand)
	addRaw(s, definition{
		name: "get_result", description: descResult,
		hints:  hints{title: "Fetch the result of a held call", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){"wait_seconds": between(0, 300)},
	}, s.getResult)
}

func (s *Server) executeCommand(ctx context.Context, req *sdk.CallToolRequest, live api.Live, in commandInput) (*sdk.CallToolResult, *CommandResult, error) {
	j, err := s.resumed(ctx, req, live)
	if err != nil {
		return nil, nil, err
	}
	if j == nil {
		if strings.TrimSpace(in.Command) == "" {
			return nil, nil, errors.New("command is empty")
		}
		r, err := s.runRequest(ctx, live, in)
		if err != nil {
			return nil, nil, err
		}
		p := newProgress(s.clock, req)
		defer p.stop()
		j = s.start(ctx, live, "execute_command", func(ctx context.Context, from api.Origin) (any, error) {
			r.Origin = from
			return s.execute(ctx, live, r, in, p)
		})
	}
	v, err := s.await(ctx, req, live, j, true)
	if err == nil && v.question == nil && v.pending == nil {
		err = j.err
	}
	if err != nil || v.question != nil {
		return v.question, nil, err
	}
	res := commandResult(j, v.pending)
	return textResult(res.text()), res, nil
}

// commandResult is the job's result, or that it is held.
func commandResult(j *job, pending *Approval) *CommandResult {
	if pending == nil {
		return j.result.(*CommandResult)
	}
	return &CommandResult{Outcome: "pending_approval", Step: pending.StepID, ChangedPaths: []string{}, Reason: pending.Message, Approval: pending}
}

// runRequest makes the request that does not depend on the job.
func (s *Server) runRequest(ctx context.Context, live api.Live, in commandInput) (api.RunRequest, error) {
	r := api.RunRequest{Argv: []string{"sh", "-c", in.Command}, Wait: true, Share: true, Timeout: s.o.DefaultTimeout}
	if in.Timeout > 0 {
		r.Timeout = time.Duration(in.Timeout * float64(time.Second))
	}
	if strings.ContainsRune(in.Command, 0) {
		return r, errors.New("command contains a zero byte")
	}
	var err error
	if r.Env, err = frontend.Environ(s.o.Env, in.Env); err != nil {
		return r, fmt.Errorf("env: %w", err)
	}
	if in.Directory == "" && in.Cwd == "" {
		return r, nil
	}
	st, err := live.Status(ctx)
	if err == nil {
		r.Dir, err = frontend.FoldersOf(st).Dir(in.Directory, in.Cwd)
	}
	return r, err
}

// execute runs the command when it is its turn in the session's queue.
func (s *Server) execute(ctx context.Context, live api.Live, r api.RunRequest, in commandInput, p *progress) (*CommandResult, error) {
	limit := in.MaxOutput
	if limit == 0 {
		limit = keptOutput
	}
	stdout, stderr := newCapture(limit), newCapture(limit)
	kept := &frontend.Transcript{}
	o, e, err := s.ready.take([]io.Writer{stdout, kept, p}, []io.Writer{stderr, kept, p})
	if err != nil {
		return nil, err
	}
	r.Stdout, r.Stderr = o.w, e.w
	begin := s.clock.Now()
	r.Started = func(undolog.StepID, hypervisor.Process) { begin = s.clock.Now() }
	res, err := live.Run(ctx, r)
	if ferr := s.ready.giveBack(res.Status.Alone, o, e); ferr != nil {
		s.log.Warn("a command's output", "err", ferr)
	}
	kept.Keep(live, res.Step, r.Argv, begin)
	start := (*hypervisor.StartError)(nil)
	if err != nil && (res.Step == 0 || errors.As(err, &start) && start.NoDirectory) {
		return nil, err // it did not even begin
	}
	out := &CommandResult{
		Outcome: res.Outcome, Step: int64(res.Step), Reason: res.Reason, Undoable: true, OthersRunning: res.Others,
		DurationSeconds: s.clock.Now().Sub(begin).Seconds(), ChangedPaths: []string{},
		TimedOut: res.Outcome == messages.OutcomeCancelled && ctx.Err() == nil,
	}
	if err != nil {
		out.Outcome, out.Reason = messages.OutcomeFailed, err.Error()
	}
	if out.Outcome != messages.OutcomeFailed {
		out.ExitCode = &res.Status.Code
	}
	if out.TimedOut {
		out.Reason = fmt.Sprintf("timed out after %s", r.Timeout)
	}
	out.Stdout, out.StdoutBytes, out.StdoutTruncated = stdout.text()
	out.Stderr, out.StderrBytes, out.StderrTruncated = stderr.text()
	out.changes(ctx, live, in, res.Entries)
	if s.o.Classify != nil {
		c := s.o.Classify(in.Command)
		out.Class, out.Warnings = c.Class, c.Warnings
	}
	out.Refused = frontend.AllTold(res.Refused)
	out.Warnings = append(out.Warnings, frontend.AllTold(res.Warnings)...)
	return out, nil
}

// changes lists what the step changed.
func (o *CommandResult) changes(ctx context.Context, live api.Live, in commandInput, entries []api.RunEntry) {
	own := ""
	if len(entries) > 0 {
		own, _ = in.path(context.WithoutCancel(ctx), live) // without it paths are absolute
	}
	for _, e := range entries {
		o.ChangedCount += e.Entry.AffectedCount
		if e.Entry.Unprotected {
			o.Undoable = false
		}
		for _, path := range e.Entry.AffectedPaths {
			if len(o.ChangedPaths) == undolog.HistoryPaths {
				break
			}
			if e.Directory != own {
				path = filepath.Join(e.Directory, path)
			}
			o.ChangedPaths = append(o.ChangedPaths, frontend.Valid(path))
		}
	}
}

// text is the result for reading: the output, then how it ended.
func (o *CommandResult) text() string {
	if o.Approval != nil {
		return o.Approval.text()
	}
	var b strings.Builder
	part := func(s string) {
		b.WriteString(s)
		if s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
	}
	part(o.Stdout)
	if o.Stderr != "" {
		part("[stderr]")
		part(o.Stderr)
	}
	b.WriteString("[" + o.summary() + "]")
	for _, r := range o.Refused {
		b.WriteString("\n[refused by the sandbox: " + r + "]")
	}
	for _, w := range o.Warnings {
		b.WriteString("\n[warning: " + w + "]")
	}
	return b.String()
}

func (o *CommandResult) summary() string {
	s := o.Outcome
	if o.ExitCode != nil && o.Outcome == messages.OutcomeCompleted {
		s = fmt.Sprintf("exit code %d", *o.ExitCode)
	}
	if o.Reason != "" {
		s += ": " + o.Reason
	}
	switch {
	case o.Outcome == messages.OutcomeDenied || o.Outcome == messages.OutcomeFailed:
		return s + "; everything it changed was put back"
	case o.OthersRunning > 0:
		return s + fmt.Sprintf("; step %d is open until %s in it ended: get_undo_history then lists what changed", o.Step, has(o.OthersRunning))
	case o.ChangedCount == 0:
		return s + "; nothing changed"
	}
	s += fmt.Sprintf("; step %d changed %s: %s", o.Step, count(o.ChangedCount, "path"), strings.Join(o.ChangedPaths[:min(10, len(o.ChangedPaths))], ", "))
	if o.ChangedCount > 10 {
		s += ", ..."
	}
	if !o.Undoable {
		return s + "; TOO LARGE TO BE UNDONE"
	}
	return s + "; undo reverts it"
}

// has names n other commands of a step.
func has(n int) string {
	if n == 1 {
		return "the other command has"
	}
	return fmt.Sprintf("the %d other commands have", n)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
