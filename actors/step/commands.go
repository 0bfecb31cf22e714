package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// waitEnd asks to be told when a step is not open any more.
type waitEnd struct {
	id    undolog.StepID
	reply *messages.Reply[Finished]
}

// Fail answers whoever waits.
func (m *waitEnd) Fail(err error) { m.reply.Fail(err) }

func (a *Actor) onEnded(m *waitEnd) {
	if m.id != a.id {
		m.reply.Send(Finished{}, nil)
		return
	}
	a.watchers = append(a.watchers, m.reply)
}

// cancelAll cancels the commands that run.
type cancelAll struct {
	cause error
	reply *messages.Reply[int]
}

// Fail answers whoever waits.
func (m *cancelAll) Fail(err error) { m.reply.Fail(err) }

func (a *Actor) onCancelAll(m *cancelAll) {
	n := 0
	for _, l := range a.running {
		if cancel := l.open.Cancel; cancel != nil {
			n++
			go cancel(m.cause)
		}
	}
	m.reply.Send(n, nil)
}

// runs notes that the lease's command, or its own write, runs in the open step.
func (a *Actor) runs(l *Lease) {
	l.started = a.o.Clock.Now()
	l.record = -1
	if l.open.Kind == Command {
		l.record = a.ran.begin(l.open.Info, l.started)
	}
	a.running = append(a.running, l)
	a.showRunning()
}

// showRunning publishes which commands run.
func (a *Actor) showRunning() {
	fact := ""
	if n := len(a.running); n > 1 {
		fact = fmt.Sprint(n)
	}
	a.o.Node.SetFact("commands", fact)
	if a.o.Running == nil {
		return
	}
	var list []api.RunningCommand
	for _, l := range a.running {
		if l.open.Kind == Command {
			list = append(list, api.RunningCommand{Command: l.open.Info.Command, Dir: l.open.Info.Dir, StartedAt: l.started})
		}
	}
	a.o.Running(list)
}

func (a *Actor) onAttach(m *Attach) {
	if a.phase != running || !slices.Contains(a.running, m.Lease) {
		go m.Cancel()
		return
	}
	m.Lease.cancel = m.Cancel
	if a.outcome != "" {
		a.end()
	}
}

// end ends the commands, each once.
func (a *Actor) end() {
	for _, l := range a.running {
		if l.cancel != nil {
			go l.cancel()
			l.cancel = nil
		}
	}
}

func (a *Actor) onFinish(m *Finish) {
	i := slices.Index(a.running, m.Lease)
	if a.phase != running || i < 0 {
		m.Reply.Fail(fmt.Errorf("%w: step %d was rolled back", messages.ErrCrashed, m.Lease.Step))
		return
	}
	a.running = slices.Delete(a.running, i, i+1)
	m.Lease.cancel = nil
	a.ran.end(m.Lease.record, m.Result, a.o.Clock.Now())
	a.quiet, a.prompt = m.Quiet, m.Prompt
	a.showRunning()
	switch {
	case m.Failed == "" || a.outcome != "":
	case len(a.running) > 0:
		a.onFail(&messages.StepFail{Outcome: messages.OutcomeFailed, Reason: m.Failed})
	default:
		a.outcome, a.reason = messages.OutcomeFailed, m.Failed
	}
	if len(a.running) > 0 && a.outcome == "" { // nobody waits for the others
		m.Reply.Send(Finished{Outcome: m.Result.Status, Others: len(a.running)}, nil)
		a.admit()
		return
	}
	a.finishes = append(a.finishes, m)
	if len(a.running) > 0 { // they have been told to end
		return
	}
	t := a.o.Holder.turn
	a.phase, t.takes = settling, false
	if !t.writes() {
		a.settled()
	}
}

// record is what is known of a step's commands.
type record struct {
	list      []undolog.StepCommand
	count     int
	text      int // bytes in list
	code      *int
	completed bool
	cancelled bool
	newest    undolog.StepResult
	group     undolog.StepID
}

// A step keeps the first commands, so that no number of them makes its summary too
// large to be read. The texts are cut, too.
const (
	recordText = 4 << 10
	recordAll  = 256 << 10
)

// begin notes a command. The result is for [record.end].
func (r *record) begin(info undolog.StepInfo, at time.Time) int {
	r.count++
	c := undolog.StepCommand{Command: cut(info.Command), Dir: cut(info.Dir), StartedAt: at}
	size := len(c.Command) + len(c.Dir)
	if len(r.list) >= undolog.MaxStepCommands || r.text+size > recordAll {
		return -1
	}
	r.text += size
	r.list = append(r.list, c)
	return len(r.list) - 1
}

func cut(text string) string {
	if len(text) <= recordText {
		return text
	}
	return strings.ToValidUTF8(text[:recordText], "")
}

func (r *record) end(i int, res undolog.StepResult, at time.Time) {
	r.newest = res
	r.group = cmp.Or(r.group, res.Group)
	switch res.Status {
	case messages.OutcomeCompleted:
		r.completed = true
	case messages.OutcomeCancelled:
		r.cancelled = true
	}
	if res.ExitCode != nil && (r.code == nil || *r.code == 0) {
		r.code = res.ExitCode
	}
	if i >= 0 {
		c := &r.list[i]
		c.Status, c.ExitCode, c.EndedAt = res.Status, res.ExitCode, at
	}
}

// result is the step's: that of its command, or of several commands together. Then
// the exit status is the first that is not 0.
func (r *record) result() undolog.StepResult {
	if r.count < 2 {
		res := r.newest
		res.Group = r.group
		return res
	}
	res := undolog.StepResult{Group: r.group, Status: messages.OutcomeFailed, ExitCode: r.code, Commands: r.list, CommandCount: r.count}
	switch {
	case r.cancelled:
		res.Status = messages.OutcomeCancelled
	case r.completed:
		res.Status = messages.OutcomeCompleted
	}
	return res
}
