package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// running is a command of 'sandbox run', in a session of this process or of another.
type running struct {
	a      *app
	job    *console.Job
	cancel context.CancelFunc
	place  launch.Place
	keep   time.Duration
	req    api.RunRequest
	leads  []string // variables that were passed on and lead outside
	status error    // of the command that ran
}

// start runs the command in a session of its own, which ends with it.
func (r *running) start(ctx context.Context) error {
	launch.Restrain(r.a.launch.Log)
	if err := r.a.launch.Useless(); err != nil {
		return err
	}
	if r.a.conf.Origin("log.level")[0].Level == config.FromDefault {
		r.a.launch.Log = console.Untold(r.a.launch.Log)
	}
	cfg, err := r.a.launch.SessionConfig()
	if err != nil {
		return err
	}
	cfg.Stop = r.cancel
	r.a.launch.Attended(&cfg)
	session, err := (&launch.Walls{Alone: true}).Start(ctx, cfg, r.a.launch.Log)
	if err != nil {
		return err
	}
	r.a.launch.Notify(session, cfg)
	deciding, decided := context.WithCancel(ctx)
	var own atomic.Int64 // the step
	unsubscribe := session.Subscribe(func(e api.Event) {
		// Not those of commands that have joined.
		if e.Concerns(r.req.Origin, undolog.StepID(own.Load())) || own.Load() == 0 && e.Origin == (api.Origin{}) {
			r.job.Event(e)
		}
	})
	go r.job.Decide(deciding, session)

	req := r.req
	req.Dir, req.Wait, req.Share, req.Last = launch.StartDir(cfg.Directories[0].Path), true, true, true
	req.Started = func(id undolog.StepID, p hypervisor.Process) {
		own.Store(int64(id))
		r.started(id, p)
	}
	req.Stays = r.stays
	res, err := session.Run(ctx, req)
	r.job.LeaveTerminal()
	unsubscribe()
	decided()

	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	closeErr := session.Close(closing)
	r.job.Remarks()
	r.status = r.a.runStatus(r.explained(res, func() []string { return []string{cfg.Directories[0].Path} }), err, closeErr)
	return nil
}

// gitFails is the status with which git says that it cannot go on.
const gitFails = 128

// explained adds to what was refused, if the command has failed, what only its caller knows. folders are the session's.
func (r *running) explained(res api.RunResult, folders func() []string) api.RunResult {
	if res.Status.Code == 0 {
		return res
	}
	if res.Status.Code == gitFails && len(res.Refused) == 0 && r.a.conf.Isolation != "none" {
		if top := launch.RepositoryAbove(r.req.Dir, folders()); top != "" {
			res.Refused = append(res.Refused, fmt.Sprintf("the repository is that of %s, which is not in the working folder, and read-only; -C %s takes it as the folder", console.Shown(top), api.ShellQuote(top)))
		}
	}
	for _, name := range r.leads {
		res.Refused = append(res.Refused, name+" is set, but what it leads to cannot be reached inside")
	}
	return res
}

// started tells the job that the command runs. It has its files: what waits for the end of one waits for the command alone from then on.
func (r *running) started(id undolog.StepID, p hypervisor.Process) {
	for _, d := range r.req.Further {
		_ = d.File.Close()
	}
	r.job.Started(id, p)
}

// stays tells the user why the program does not end with the command: others have
// joined its session. Whoever waits for the end of its pipes waits for the command: it may be one of
// those that this program waits for.
func (r *running) stays(res api.RunResult) {
	r.job.Ended()
	r.job.LeaveTerminal()
	r.job.Remarks()
	fmt.Fprintf(r.a.stderr, "sandbox: the command has ended; the session stays for %s that joined step %d; Ctrl-C ends that, too (--keep does not wait)\n",
		console.Commands(res.Others), res.Step)
	if console.IsPipe(r.a.stderr) {
		_ = r.a.runStatus(res, nil, nil) // nothing more can be told later
	}
	if err := console.GiveUpPipes(r.a.stdin, r.a.stdout, r.a.stderr); err != nil {
		r.a.log.Warn("pipes are kept open until the session ends", "component", "cli", "err", err)
	}
}

// waitNote is how long a command waits for another before its user is told.
const waitNote = 300 * time.Millisecond

// join runs the command in a session that is there.
func (r *running) join(ctx context.Context, s api.Joined) error {
	defer s.Close(ctx)
	w := &waiting{stderr: r.a.stderr, pid: s.PID()}
	defer w.over()
	deciding, decided := context.WithCancel(ctx)
	defer decided()
	go r.job.Decide(deciding, s)
	req := api.JoinRequest{
		Run: r.req, Wants: r.place.Wants(r.keep), Waits: w.tell, Event: r.job.Event,
	}
	req.Run.Started = func(id undolog.StepID, p hypervisor.Process) {
		w.over()
		r.started(id, p)
	}
	res, err := s.Join(ctx, req)
	if errors.Is(err, messages.ErrEnding) {
		return err
	}
	r.job.LeaveTerminal()
	r.job.Warned(res.Warnings...) // the session answers when the step has ended: it does not wait for its events
	r.job.Remarks()
	r.status = r.a.runStatus(r.explained(res, func() []string { return folders(ctx, s) }), err, nil)
	return nil
}

// folders are the working folders of a session; none if it does not answer any more.
func folders(ctx context.Context, s api.Joined) (paths []string) {
	st, _ := s.Status(ctx)
	for _, d := range st.Directories {
		paths = append(paths, d.Path)
	}
	return paths
}

// waiting tells the user on a terminal, after a moment, what is waited for.
type waiting struct {
	stderr *os.File
	pid    int

	mu    sync.Mutex
	ended bool
	now   api.Waits
	timer *time.Timer
}

func (w *waiting) tell(waits api.Waits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = waits
	if w.timer == nil && !w.ended && term.IsTerminal(int(w.stderr.Fd())) {
		w.timer = time.AfterFunc(waitNote, w.show)
	}
}

func (w *waiting) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		fmt.Fprintf(w.stderr, "sandbox: waiting: as many commands run as may (%d; step %d: %s; session of process %d)\n",
			w.now.Commands, w.now.Step, console.OneLine(w.now.Command, 60), w.pid)
	}
}

// over is when the command runs, or will not.
func (w *waiting) over() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
