package interceptor

import (
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// samplePaths is how many paths a question shows.
const samplePaths = 10

// trips counts r and reports whether it must wait for a decision now.
func (a *Actor) trips(r *request) bool {
	if exempt(a.h.safe.Load().Exempt, r.path) {
		return false
	}
	count := 1
	paths := []string{r.path}
	if r.safe == messages.KindDelete {
		a.deletes++
		if len(a.sample) < samplePaths {
			a.sample = append(a.sample, r.path)
		}
		if limit := a.h.safe.Load().DeleteThreshold; limit == 0 || a.deletes < limit {
			return false
		}
		count, paths = a.deletes, append([]string(nil), a.sample...)
	}
	a.question(r, count, paths)
	return true
}

// question closes the gate, lets what is under way end, and asks.
func (a *Actor) question(r *request, count int, paths []string) {
	kind := r.safe
	a.token++
	ask := &messages.Ask{
		Token: a.token, Directory: a.h.o.Directory, Step: int64(a.open), Kind: kind,
		Count: count, Paths: paths, Message: describe(kind, int64(a.open), count, paths), Answer: a.tell,
	}
	if as := a.h.assigned.Load(); as != nil {
		ask.Command = as.info.Command
	}
	a.asking = &pending{a.token, kind, ask, r}
	a.h.moveGate(gateHold)
	done := &paused{token: a.token}
	go func() {
		a.h.guard.Drain(func() bool { a.h.noteGranted(); return false }) // what was written until now is the step's own
		done.callers = a.h.callers(r.pid)
		a.tell(done)
	}()
}

func describe(kind string, step int64, count int, paths []string) string {
	switch kind {
	case messages.KindOverwrite:
		return fmt.Sprintf("Step %d is about to overwrite the large file %s. Awaiting confirmation.", step, texts.Quoted(paths[0]))
	case messages.KindRename:
		return fmt.Sprintf("Step %d is about to rename over the existing file %s. Awaiting confirmation.", step, texts.Quoted(paths[0]))
	}
	return fmt.Sprintf("Step %d is attempting to delete %d files/directories. Awaiting confirmation.", step, count)
}

func (a *Actor) onAnswer(m *messages.Answer) {
	if a.onProtectAnswer(m) {
		return
	}
	if a.asking == nil || a.asking.token != m.Token {
		return
	}
	kind := a.asking.kind
	a.asking = nil
	if m.Allow {
		a.h.allow(kind)
		a.reopen()
		a.readmit()
		return
	}
	reason := messages.Refusal(m.ID, kind, m.By)
	a.fail()
	if as := a.h.assigned.Load(); as != nil {
		as.failing = true
		a.h.o.Owner(&messages.StepFail{Step: int64(as.id), Outcome: messages.OutcomeDenied, Reason: reason})
		return
	}
	a.abortAmbient(reason)
}

// withdraw takes the question back.
func (a *Actor) withdraw() {
	a.h.o.Safeguard(&messages.Withdraw{Directory: a.h.o.Directory, Token: a.asking.token})
	a.asking = nil
}

// onAbandoned takes the question about r back, since r will not happen, and
// lets go on what waited behind it.
func (a *Actor) onAbandoned(r *request) {
	a.leaveProtected(r)
	if a.asking == nil || a.asking.about != r {
		return
	}
	if r.safe == messages.KindDelete {
		a.deletes--
		if n := len(a.sample); n > 0 && a.sample[n-1] == r.path {
			a.sample = a.sample[:n-1]
		}
	}
	a.withdraw()
	a.reopen()
	a.readmit()
}
