package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
)

// Job is the command in front of the user: it moves signals, terminal bytes
// and decisions between the user and the session. Its methods are safe for
// concurrent use.
type Job struct {
	stderr  *os.File
	log     *slog.Logger
	signals chan os.Signal
	deaf    func() // ends what fills signals
	asks    chan api.Pending
	stops   chan struct{} // the command has stopped; room for one

	mu      sync.Mutex
	process hypervisor.Process       // nil before the command runs
	term    *Relay                   // nil without a pseudo-terminal
	decided map[string]chan struct{} // closed when the safeguard has been decided
	refusal map[string]bool          // by the network, that were noted
	notes   []string                 // printed at the end, so as not to disturb a full-screen program
	terms   int                      // TERM signals so far
	early   int                      // a signal for the command that came before it
	ending  int                      // the signal that has cancelled the run before the command began
	edits   bool                     // from outside were told of
	told    map[string]bool          // warnings that were
	over    bool                     // the command has ended: signals are for us
	halted  bool                     // the command has stopped before we heard that it runs
	stopped bool                     // the command has, and we were
	passing bool                     // the next CONT is from our own watch, and not the user's
}

// NewJob returns a job on the user's files, and begins to catch signals. Close it.
// The logger must not be nil. Signals, if it is not nil, has room for some, and has those that were caught before.
func NewJob(stdin, stdout, stderr *os.File, log *slog.Logger, signals chan os.Signal) *Job {
	if signals == nil {
		signals = make(chan os.Signal, 16)
	}
	j := &Job{
		stderr: stderr, log: log,
		signals: signals,
		asks:    make(chan api.Pending, 64),
		stops:   make(chan struct{}, 1),
		decided: map[string]chan struct{}{}, refusal: map[string]bool{},
		term: NewRelay(stdin, stdout, stderr),
	}
	j.deaf = j.listen()
	return j
}

// HeededSignals are the signals of a list that whoever started this process has not had ignored, as nohup has HUP.
func HeededSignals(list ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(list), signal.Ignored)
}

// Close ends HandleSignals: signals do again what they do by default.
func (j *Job) Close() {
	j.deaf()
	close(j.signals)
}

// TTY is the pseudo-terminal to ask for, in the place of those of the user's files that are terminals: no command gets
// one of the user's. Nil if none is.
func (j *Job) TTY() *hypervisor.TTY {
	if j.term == nil {
		return nil
	}
	rows, cols := j.term.Size()
	tty := &hypervisor.TTY{Rows: rows, Cols: cols, Term: terminalType(), Of: j.term.Of()}
	if follows && j.whole() { // else its keys are signals for us, too
		j.term.Returned = j.goOn
		tty.Stopped = func(int) { j.commandStopped() }
	}
	return tty
}

// commandStopped has HandleSignals do what a job does that was stopped.
func (j *Job) commandStopped() {
	j.mu.Lock()
	j.halted = j.process == nil
	j.mu.Unlock()
	select {
	case j.stops <- struct{}{}:
	default: // it does that already
	}
}

// whole reports whether the command has the user's terminal for itself: keys are not signals for us then, and what we print waits.
func (j *Job) whole() bool { return j.term != nil && !j.term.Partial() }

// Started tells that the command runs, as the step. It moves the terminal's bytes
// from then on.
func (j *Job) Started(_ undolog.StepID, p hypervisor.Process) {
	j.mu.Lock()
	j.process = p
	early, stopped := j.early, j.halted
	j.mu.Unlock()
	if early != 0 {
		j.forward(commandSignal(early))
	}
	if j.term == nil {
		return
	}
	if stopped {
		defer j.commandStopped()
	}
	if err := j.term.Start(p); err != nil {
		j.Note("sandbox: terminal: " + err.Error())
	}
}

// isStopped tells whether the command has stopped, and waits for the user.
func (j *Job) isStopped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopped
}

// goOn continues the command if it has stopped.
func (j *Job) goOn() {
	j.mu.Lock()
	was := j.stopped
	j.stopped = false
	j.mu.Unlock()
	if was {
		go j.forward(cont) // in another process's session that takes its time
	}
}

// cont is the signal CONT as commands have it.
const cont = 18

// Ended tells that the command has ended and that something else is waited for: a
// signal cancels that.
func (j *Job) Ended() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
}

// Unbegun is the signal that has ended the run before its command began; 0 if none has.
func (j *Job) Unbegun() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.process != nil {
		return 0
	}
	return j.ending
}

func (j *Job) forward(sig int) {
	if err := j.running().Signal(sig); err != nil {
		j.log.Debug("signal not delivered", "component", "cli", "signal", sig, "error", err)
	}
}

func (j *Job) running() hypervisor.Process {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.process
}

// LeaveTerminal gives the user's terminal back as it was. It may be called
// more than once.
func (j *Job) LeaveTerminal() {
	if j.term != nil {
		j.term.Stop()
	}
}

// Note keeps a line for the end, or prints it where it disturbs nobody.
func (j *Job) Note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.whole() {
		fmt.Fprintln(j.stderr, line)
		return
	}
	j.notes = append(j.notes, line)
}

// Remarks prints what was kept for the end.
func (j *Job) Remarks() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.notes {
		fmt.Fprintln(j.stderr, n)
	}
	j.notes = nil
}

// Event hears what happens in the session. It must not block.
func (j *Job) Event(e api.Event) {
	switch e.Type {
	case api.EventSafeguardTriggered:
		if e.Pending != nil {
			j.decisionOf(e.Pending.ID)
			select {
			case j.asks <- *e.Pending:
			default: // its deadline denies it
			}
		}
	case api.EventSafeguardDecided:
		if e.Decision != nil {
			j.noteDecision(e.Decision.ID)
		}
	case api.EventRecovery:
		if r := e.Recovery; r != nil {
			j.Note(Recovery(*r))
		}
	case api.EventNetwork:
		switch n := e.Network; {
		case n == nil:
		case n.Action == policy.Deny:
			j.refused(*n)
		case n.Reached() != "":
			j.Note(fmt.Sprintf("sandbox: network: port %d of the commands is reached at %s", n.Target.Port(), n.Reached()))
		}
	case api.EventExternalModification:
		if j.first() {
			j.Note("sandbox: " + e.Message)
		}
	case api.EventWarning, api.EventError:
		if e.Message != "" && (e.Warning == nil || !e.Warning.Usual) {
			j.Warned(e.Message)
		}
	}
}

// Warned notes what the session has warned of, each text once: those of a step's end may come as events, with the result, or both.
func (j *Job) Warned(texts ...string) {
	const most = 1000 // a program inside can cause some
	for _, text := range texts {
		j.mu.Lock()
		known := j.told[text]
		if j.told == nil {
			j.told = map[string]bool{}
		}
		if len(j.told) < most {
			j.told[text] = true
		}
		j.mu.Unlock()
		if !known {
			j.Note("sandbox: " + text)
		}
	}
}

// first tells whether the user has not been told of edits from outside yet: where there is one, there are more.
func (j *Job) first() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.edits
	j.edits = true
	return first
}

// refusals is how many different ones of the network's are told of.
const refusals = 10

// refused says once what the network's policy has refused: inside, it looks like
// a network that is out of order.
func (j *Job) refused(e policy.Event) {
	what := "the name " + e.Domain
	switch {
	case e.Kind == policy.EventListen:
		what = "to " + e.Destination()
	case e.Protocol != policy.DNS:
		what = string(e.Protocol) + " " + e.Target.String()
		if e.Domain != "" {
			what += " (" + e.Domain + ")"
		}
	}
	line := "sandbox: network: " + Shown(what) + " was refused: " + Shown(e.Rule)
	if rule := e.Remedy(); rule != "" {
		line += "; --allow-host " + rule + " would allow it"
	}
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
		j.Note("sandbox: network: more was refused; --log-level info says what")
	default:
		j.Note(line)
	}
}

// decisionOf returns the channel that is closed by the safeguard's decision.
func (j *Job) decisionOf(id string) chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	c, ok := j.decided[id]
	if !ok {
		c = make(chan struct{})
		j.decided[id] = c
	}
	return c
}

func (j *Job) noteDecision(id string) {
	c := j.decisionOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// Decide brings safeguards before the user, one after the other, until ctx
// ends.
func (j *Job) Decide(ctx context.Context, s api.Service) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-j.asks:
			a, answered := j.ask(ctx, p)
			if !answered {
				continue
			}
			err := s.Decide(ctx, api.DecideRequest{ID: p.ID, Allow: a.Allow, Scope: a.Scope, By: "terminal"})
			if err != nil && !errors.Is(err, context.Canceled) {
				j.Note("sandbox: " + err.Error())
			}
		}
	}
}

// ask asks on the terminal. answered is false if there is none, or if the
// decision came from elsewhere or was no longer needed.
func (j *Job) ask(ctx context.Context, p api.Pending) (a PromptAnswer, answered bool) {
	q := PromptQuestion{Text: safeguardText(p), Lasting: messages.Lasting(p.Kind), Deadline: p.Deadline}
	gone, stop := merged(ctx, j.decisionOf(p.ID))
	defer stop()
	if j.whole() && j.term.Foreground() {
		return j.term.Ask(q, gone)
	}
	if j.term != nil {
		defer j.term.Hold()()
	}
	tty, err := OpenPrompt()
	if err != nil {
		fmt.Fprintf(j.stderr, "sandbox: %s\n  allow: sandbox approve %s\n  refuse: sandbox deny %s\n  refused at %s without a decision\n",
			q.Text, p.ID, p.ID, p.Deadline.Local().Format(time.TimeOnly))
		return PromptAnswer{}, false
	}
	defer tty.Close()
	return tty.Ask(q, gone)
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

func safeguardText(p api.Pending) string {
	text := strings.Join(texts.Lines(p.Message), "\n    ")
	for i, path := range p.SamplePaths {
		if i == 5 {
			text += fmt.Sprintf("\n    ... %d in all", p.Count)
			break
		}
		text += "\n    " + Shown(path)
	}
	for i, c := range p.Callers {
		if i == 3 {
			break // the command is known
		}
		text += "\n    " + map[bool]string{true: "asked by ", false: "  within "}[i == 0] + texts.Clip(texts.Line(c.String()), 160)
	}
	return text
}
