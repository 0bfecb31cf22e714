package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/shortcut"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/stepline"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/inherit"
	"github.com/codeagent/sandbox/messages"
)

// closeTimeout bounds the orderly end of a session.
const closeTimeout = 20 * time.Second

type runOptions struct {
	timeout time.Duration
	env     []string
	keep    time.Duration
	attach  bool   // only to a session that is there
	session string // the id of the one to attach to; empty: the folder's
	service string
	noFDs   bool
}

// programFlags set keys of the configuration for all commands, and serveFlags those that only serve has. Flags of all other keys are for a session that
// is started (app.sessionFlags).
var programFlags, serveFlags = []string{"undo-dir", "log-level", "log-format"}, []string{"listen", "metrics", "mcp-socket", "auto-approve"}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command isolated on the working folder, as one step that can be undone",
		Long: "Run a command isolated on the working folder, as one step that can be undone.\n\n" +
			"If a session has the folder, or one above it, the command joins it. --keep leaves the session up for the next one.\n" +
			"Commands that run at the same time are one step.\n\n" +
			"The exit status is the command's own; 125 if the sandbox failed, 126 if the command cannot be executed,\n" +
			"127 if there is no such command, 128+n if signal n ended it.",
		Args: checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), cmd, args, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.DurationVar(&o.timeout, "timeout", 0, "end the command after this `time`")
	f.DurationVar(&o.keep, "keep", 0, "leave the session up for this `time` without commands")
	f.StringArrayVar(&o.env, "env", nil, "set a variable, `K=V`, or pass one on that is held back, K (repeatable)")
	f.BoolVar(&o.noFDs, "no-fds", false, "pass no open files to the command but standard input, output and error")
	f.StringVar(&o.service, "service", "", "start the command as a service of this `name`, and do not wait for it")
	a.addKeyFlags(cmd, a.sessionFlags...)
	return cmd
}

// stepCommand is run for programs inside a sandbox, and only for them.
func (a *app) stepCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "step [--env K=V] -- COMMAND [ARG...]",
		Short: "Inside a sandbox: run a command as a step of its own",
		Long: "Inside a sandbox: run a command as a step of its own, which can be undone alone. 'sandbox run' does the same there.\n\n" +
			"Outside, this is an error: nothing is open of which the command could be a step.",
		Args: checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if launch.InsideSocket() != "" {
				return a.run(cmd.Context(), cmd, args, o)
			}
			if err := launch.CheckInside(); err != nil {
				return err
			}
			return console.Usagef("'sandbox step' is for programs inside a sandbox, and this is outside: say 'sandbox run -- %s'", api.ShellQuote(args...))
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&o.env, "env", nil, "set a variable, `K=V`, or pass one on that is held back, K (repeatable)")
	return cmd
}

// startService starts a service in the session of the place, or in a new one in the
// background.
func (a *app) startService(ctx context.Context, cmd *cobra.Command, o runOptions, place launch.Place, r api.ServiceRequest) error {
	if o.timeout > 0 {
		return console.Usagef("a service has no --timeout")
	}
	if err := r.Validate(); err != nil { // before a session is started for it
		return ours(err)
	}
	if o.keep == 0 {
		o.keep = defaultIdle
	}
	wants := place.Wants(0)
	if cmd.Flags().Changed("keep") {
		wants.Keep = o.keep
	}
	return place.Attempt(ctx, launch.Attempt{
		Start: func() error { return a.startBackground(cmd, o.keep) },
		Join: func(s api.Joined) error {
			defer s.Close(ctx)
			if err := s.Offers(ctx, wants); err != nil {
				return err
			}
			v, err := s.StartService(ctx, r)
			switch {
			case err != nil:
				return err
			case a.flags.json:
				return a.out.JSON(v)
			}
			fmt.Fprintf(a.stderr, "service %s runs (session of process %d); its output: sandbox service output %s\n", v.Name, s.PID(), v.Name)
			return nil
		},
	})
}

func (a *app) run(ctx context.Context, cmd *cobra.Command, argv []string, o runOptions) (err error) {
	if o.timeout < 0 || o.keep < 0 {
		return console.Usagef("--timeout and --keep must not be negative")
	}
	named, err := launch.ProfileEnv(a.conf.Profile)
	if err != nil {
		return err
	}
	env, err := inherit.VariablesOfCommand(os.Environ(), append(named, o.env...))
	if bad := (*inherit.BadVariableError)(nil); errors.As(err, &bad) {
		return console.Usagef("--env %q: write K=V, or K to pass the variable on", bad.Addition)
	}
	if path := launch.InsideSocket(); path != "" && !o.attach {
		return a.runInside(cmd, path, argv, env)
	}
	if err := launch.CheckInside(); err != nil {
		return err
	}
	place, attempt, err := a.place(ctx, o)
	if err != nil {
		return ours(err)
	}
	if cmd.Flags().Changed("service") {
		console.PassedSignals(a.stderr, true)
		return ours(a.startService(ctx, cmd, o, place, api.ServiceRequest{Name: o.service, Argv: argv, Env: env, Dir: place.Dir}))
	}
	var signals chan os.Signal
	if t := a.asked; t != nil {
		signals = t.Signals
		if attempt.First, err = actors.Adopt(actors.Asked{Socket: t.Socket, Conn: t.Conn, ID: shortcut.Request, Answer: t.Answer}); err != nil {
			return ours(err)
		}
	}
	further := console.PassedSignals(a.stderr, o.noFDs)
	j := console.NewJob(a.stdin, a.stdout, a.stderr, a.log, signals)
	defer func() {
		if !silent(err) { // else the program ends at once, and to give each signal its effect back takes longer than that
			j.Close()
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go j.HandleSignals(cancel)
	defer j.LeaveTerminal() // also when something below panics

	r := &running{a: a, job: j, cancel: cancel, place: place, keep: o.keep, leads: inherit.VariableLeadsOut(o.env), req: api.RunRequest{
		Argv: argv, Env: env, Dir: place.Dir, Timeout: o.timeout,
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, TTY: j.TTY(), Further: further, Ignored: console.IgnoredSignals(), Asks: console.Asks(), Started: j.Started,
		Origin: api.Origin{Frontend: "cli", Tool: "run"},
	}}
	attempt.Join = func(s api.Joined) error { return r.join(ctx, s) }
	switch {
	case o.attach:
		attempt.Start = func() error {
			if o.session != "" {
				return ours(fmt.Errorf("the session %s has ended", console.Shown(o.session)))
			}
			return ours(fmt.Errorf("no session has %s; 'sandbox start' starts one", console.Shown(place.Dir)))
		}
	case o.keep > 0:
		attempt.Start = func() error { return a.startBackground(cmd, o.keep) }
	default:
		attempt.Start = func() error { return r.start(ctx) }
	}
	if err = ours(place.Attempt(ctx, attempt)); err == nil {
		err = r.status
	}
	if sig := j.Unbegun(); sig != 0 && err != nil { // as the command would have ended
		return &console.Error{Code: 128 + sig, Signal: sig}
	}
	return err
}

// place says where a command shall run, and which session is known to be there.
func (a *app) place(ctx context.Context, o runOptions) (place launch.Place, attempt launch.Attempt, err error) {
	if o.session == "" {
		place, err = a.launch.Place(a.keyFlags)
		return place, attempt, err
	}
	if attempt.First, err = a.session(ctx, o.session); err != nil {
		return place, attempt, err
	}
	st, err := attempt.First.Status(ctx)
	if err != nil {
		return place, attempt, errors.Join(err, attempt.First.Close(ctx))
	}
	place.Dir = launch.StartDir(st.Directories[0].Path, folders(ctx, attempt.First)...)
	return place, attempt, nil
}

// silent reports whether nothing is printed about how a command of ours ended.
func silent(err error) bool {
	status := (*console.Error)(nil)
	return err == nil || errors.As(err, &status) && status.Err == nil
}

// runInside runs a command in the sandbox that this program is in.
func (a *app) runInside(cmd *cobra.Command, socket string, argv, env []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		// --keep, which agents' hooks give, is about a session that lives anyway.
		if !slices.Contains([]string{"env", "json", "verbose", "keep"}, f.Name) && err == nil {
			err = &console.Error{Code: console.Ours, Err: fmt.Errorf("--%s: this is inside a sandbox, and nothing in it can change what it is; leave the flag out", f.Name)}
		}
	})
	if err != nil {
		return err
	}
	hostfs.SetUmask(a.umask)
	return launch.InsideCommand{
		Socket: socket, Argv: argv, Env: env, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Done: func(r api.InsideAnswer) {
			if r.Others == 0 && r.Changed > 0 {
				fmt.Fprintf(a.stderr, "step %d: %s changed\n", r.Step, console.Paths(r.Changed))
			}
		},
	}.Run()
}

// ours gives an error of our own, and no other, the status 125.
func ours(err error) error {
	var start *hypervisor.StartError
	var status *console.Error
	if err == nil || console.IsUsage(err) || errors.As(err, &start) || errors.As(err, &status) {
		return err
	}
	return &console.Error{Code: console.Ours, Err: err}
}

// runStatus prints how the step ended and returns the exit status.
func (a *app) runStatus(res api.RunResult, err, closeErr error) error {
	if closeErr != nil {
		fmt.Fprintln(a.stderr, "sandbox: the session did not end cleanly: "+closeErr.Error())
	}
	var start *hypervisor.StartError
	if errors.As(err, &start) {
		return err
	}
	if err != nil {
		return &console.Error{Code: console.Ours, Err: err}
	}
	if a.flags.json {
		a.printStepJSON(res)
	} else {
		a.printStep(res)
	}
	code := res.Status.Code
	switch res.Outcome {
	case "failed":
		return &console.Error{Code: console.Ours, Err: fmt.Errorf("step %d failed and %s: %s", res.Step, rolledBack(res, "was rolled back"), res.Reason)}
	case "denied":
		if code == 0 {
			code = console.Failed
		}
		return &console.Error{Code: code, Err: fmt.Errorf("step %d was denied and %s: %s", res.Step, rolledBack(res, "rolled back"), res.Reason)}
	}
	if code == 0 {
		return nil
	}
	ended := &console.Error{Code: code}
	if res.Outcome == messages.OutcomeCompleted { // else we ended it
		ended.Signal = res.Status.Signal
	}
	return ended
}

// rolledBack says what became of what a failed step did: as a rule, what usual says.
func rolledBack(res api.RunResult, usual string) string {
	if res.Left {
		return "could not be rolled back"
	}
	return usual
}

// printStep is the one line at the end, after one about a limit, and one that says why we ended the command.
func (a *app) printStep(res api.RunResult) {
	if res.Outcome == messages.OutcomeCancelled && res.Reason != "" {
		fmt.Fprintln(a.stderr, "sandbox: the command was ended: "+res.Reason)
	}
	if res.Status.Limit != "" {
		fmt.Fprintln(a.stderr, "sandbox: a limit was reached: "+res.Status.Limit)
	}
	for _, line := range res.Refused {
		fmt.Fprintln(a.stderr, "sandbox: "+line)
	}
	if res.Others > 0 {
		fmt.Fprintf(a.stderr, "step %d: still open, %s in it; then: sandbox show %d\n", res.Step, console.Commands(res.Others), res.Step)
		return
	}
	changed := false
	several := len(res.Entries) > 1 && !a.oneHistory(res)
	for _, e := range res.Entries {
		if e.Entry.AffectedCount == 0 || e.Entry.LooksOnly { // an undo does not stop at a look
			continue
		}
		changed = true
		where := ""
		if len(res.Entries) > 1 {
			where = " in " + console.Shown(e.Directory)
		}
		how := a.undoHint(e.Directory, several)
		if e.Entry.Unprotected {
			how = "not all of it could be recorded: this step cannot be undone"
		}
		fmt.Fprint(a.stderr, stepline.Changed(int64(e.Entry.StepID), e.Entry.AffectedCount, where, how))
	}
	if !changed && a.flags.verbose {
		fmt.Fprintf(a.stderr, "step %d: nothing changed\n", res.Step)
	}
}

// oneHistory reports whether a step's folders are one and the git directory of its
// worktree: 'sandbox undo' undoes both.
func (a *app) oneHistory(res api.RunResult) bool {
	if len(res.Entries) != 2 {
		return false
	}
	git, ok := a.launch.Partner(api.Directory{Path: res.Entries[0].Directory})
	return ok && git.Path == res.Entries[1].Directory
}

// stepReport is what --json prints on stderr instead of that line: stdout is
// the command's.
type stepReport struct {
	Step        undolog.StepID `json:"step_id"`
	Outcome     string         `json:"outcome"`
	Reason      string         `json:"reason,omitempty"`
	ExitCode    int            `json:"exit_code"`
	Limit       string         `json:"limit,omitempty"`
	Refused     []string       `json:"refused,omitempty"`
	Directories []stepFolder   `json:"directories"`
	// Others run on in the step: it is still open, and what it changes is not known.
	Others int `json:"others_running,omitempty"`
}

type stepFolder struct {
	Directory     string `json:"directory"`
	AffectedCount int    `json:"affected_count"`
	Unprotected   bool   `json:"unprotected,omitempty"`
}

func (a *app) printStepJSON(res api.RunResult) {
	r := stepReport{Step: res.Step, Outcome: res.Outcome, Reason: res.Reason, ExitCode: res.Status.Code, Limit: res.Status.Limit, Refused: res.Refused, Directories: []stepFolder{}, Others: res.Others}
	for _, e := range res.Entries {
		r.Directories = append(r.Directories, stepFolder{e.Directory, e.Entry.AffectedCount, e.Entry.Unprotected})
	}
	_ = json.NewEncoder(a.stderr).Encode(r) // a lost stderr is no failure of the command
}

// undoHint names the command that undoes the step just run, with the flags that
// were needed here.
func (a *app) undoHint(dir string, several bool) string {
	if !several && len(a.flags.dirs) == 0 {
		dir = ""
	}
	undoDir := ""
	if v := a.keyFlags["undo-dir"].Values; len(v) > 0 {
		undoDir = v[len(v)-1]
	}
	return stepline.Undo(dir, undoDir, a.flags.configFile)
}
