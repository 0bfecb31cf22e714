package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// job is the command in front of the user: it moves signals, terminal bytes
// and decisions between the user and the session.
type job struct {
	a       *app
	cfg     actors.Config
	signals chan os.Signal
	asks    chan actors.Pending

	mu      sync.Mutex
	process hypervisor.Process       // nil before the command runs
	term    *terminal                // nil without a pseudo-terminal
	decided map[string]chan struct{} // closed when the safeguard has been decided
	refusal map[string]bool          // by the network, that were noted
	notes   []string                 // printed at the end, so as not to disturb a full-screen program
	terms   int                      // TERM signals so far
	early   int                      // a signal for the command that came before it
}

func newJob(a *app, cfg actors.Config) *job {
	j := &job{
		a: a, cfg: cfg,
		signals: make(chan os.Signal, 16),
		asks:    make(chan actors.Pending, 64),
		decided: map[string]chan struct{}{}, refusal: map[string]bool{},
		term: newTerminal(a.stdin, a.stdout, a.stderr),
	}
	signal.Notify(j.signals, jobSignals...)
	return j
}

func (j *job) stopSignals() {
	signal.Stop(j.signals)
	close(j.signals)
}

// tty asks for a pseudo-terminal if all three of the user's files are terminals.
func (j *job) tty() *hypervisor.TTY {
	if j.term == nil {
		return nil
	}
	rows, cols := j.term.size()
	return &hypervisor.TTY{Rows: rows, Cols: cols, Term: os.Getenv("TERM")}
}

func (j *job) started(_ undolog.StepID, p hypervisor.Process) {
	j.mu.Lock()
	j.process = p
	early := j.early
	j.mu.Unlock()
	if early != 0 {
		j.forward(early)
	}
	if j.term == nil {
		return
	}
	if err := j.term.start(p); err != nil {
		j.note("sandbox: terminal: " + err.Error())
	}
}

func (j *job) forward(sig int) {
	if err := j.running().Signal(sig); err != nil {
		j.a.log.Debug("signal not delivered", "component", "cli", "signal", sig, "error", err)
	}
}

func (j *job) running() hypervisor.Process {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.process
}

// leaveTerminal gives the user's terminal back as it was. It may be called
// more than once.
func (j *job) leaveTerminal() {
	if j.term != nil {
		j.term.stop()
	}
}

// note keeps a line for the end, or prints it where it disturbs nobody.
func (j *job) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.term == nil {
		fmt.Fprintln(j.a.stderr, line)
		return
	}
	j.notes = append(j.notes, line)
}

// remarks prints what was kept for the end.
func (j *job) remarks() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.notes {
		fmt.Fprintln(j.a.stderr, n)
	}
	j.notes = nil
}

// event hears what happens in the session. It must not block.
func (j *job) event(e actors.Event) {
	switch e.Type {
	case actors.EventSafeguardTriggered:
		if e.Pending != nil {
			j.decisionOf(e.Pending.ID)
			select {
			case j.asks <- *e.Pending:
			default: // its deadline denies it
			}
		}
	case actors.EventSafeguardDecided:
		if e.Decision != nil {
			j.noteDecision(e.Decision.ID)
		}
	case actors.EventRecovery:
		if r := e.Recovery; r != nil {
			j.note(format.Recovery(*r))
		}
	case actors.EventNetwork:
		if e.Network != nil && e.Network.Action == policy.Deny {
			j.refused(*e.Network)
		}
	case actors.EventWarning, actors.EventError, actors.EventExternalModification:
		if e.Message != "" {
			j.note("sandbox: " + e.Message)
		}
	}
}

// refusals is how many different ones of the network's are told of.
const refusals = 10

// refused says once what the network's policy has refused: inside, it looks like
// a network that is out of order.
func (j *job) refused(e policy.Event) {
	what := "the name " + e.Domain
	if e.Protocol != policy.DNS {
		what = string(e.Protocol) + " " + e.Target.String()
		if e.Domain != "" {
			what += " (" + e.Domain + ")"
		}
	}
	line := "sandbox: network: " + format.Shown(what) + " was refused: " + format.Shown(e.Rule)
	j.mu.Lock()
	n := len(j.refusal)
	known := j.refusal[line] || n > refusals
	if !known {
		j.refusal[line] = true
	}
	j.mu.Unlock()
	switch {
	case known:
	case n == refusals:
		j.note("sandbox: network: more was refused; --log-level info says what")
	default:
		j.note(line)
	}
}

// decisionOf returns the channel that is closed by the safeguard's decision.
func (j *job) decisionOf(id string) chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	c, ok := j.decided[id]
	if !ok {
		c = make(chan struct{})
		j.decided[id] = c
	}
	return c
}

func (j *job) noteDecision(id string) {
	c := j.decisionOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// decide brings safeguards before the user, one after the other, until ctx
// ends.
func (j *job) decide(ctx context.Context, s actors.Service) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-j.asks:
			allow, answered := j.ask(ctx, p)
			if !answered {
				continue
			}
			err := s.Decide(ctx, actors.DecideRequest{ID: p.ID, Allow: allow, By: "terminal"})
			if err != nil && !errors.Is(err, context.Canceled) {
				j.note("sandbox: " + err.Error())
			}
		}
	}
}

// ask asks on the terminal. answered is false if there is none, or if the
// decision came from elsewhere or was no longer needed.
func (j *job) ask(ctx context.Context, p actors.Pending) (allow, answered bool) {
	question := safeguardText(p)
	gone, stop := merged(ctx, j.decisionOf(p.ID))
	defer stop()
	if j.term != nil && j.term.foreground() {
		return j.term.ask(question, gone, p.Deadline)
	}
	tty, err := openPromptTerminal()
	if err != nil {
		fmt.Fprintf(j.a.stderr, "sandbox: %s\n  allow: sandbox approve %s\n  refuse: sandbox deny %s\n  refused at %s without a decision\n",
			question, p.ID, p.ID, p.Deadline.Local().Format(time.TimeOnly))
		return false, false
	}
	defer tty.Close()
	return promptOn(tty, question, gone, p.Deadline)
}

// merged is a channel that is closed when ctx ends or c is closed.
func merged(ctx context.Context, c <-chan struct{}) (<-chan struct{}, func()) {
	both, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c:
			cancel()
		case <-both.Done():
		}
	}()
	return both.Done(), cancel
}

func safeguardText(p actors.Pending) string {
	text := p.Message
	for i, path := range p.SamplePaths {
		if i == 5 {
			text += fmt.Sprintf("\n    ... %d in all", p.Count)
			break
		}
		text += "\n    " + format.Shown(path)
	}
	return text
}
