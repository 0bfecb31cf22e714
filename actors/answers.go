package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/messages"
)

// mostAnswers is how many of a session are known: the newest.
const mostAnswers = 1000

// answers are what the questions of a session came to, and what each left that can be taken back. Its methods
// are safe for concurrent use and do not block.
type answers struct {
	mu   sync.Mutex
	open map[string]api.Pending
	past []*answer // oldest first
}

// answer is one of them.
type answer struct {
	api.Decided
	back []func() error // take back what it left
}

// asked notes a question.
func (a *answers) asked(p api.Pending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[string]api.Pending{}
	}
	a.open[p.ID] = p
}

// decided notes what became of a question.
func (a *answers) decided(d messages.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.open[d.ID]
	if !ok {
		return
	}
	delete(a.open, d.ID)
	a.past = append(a.past, &answer{Decided: api.Decided{Pending: p, At: d.At, Outcome: d.Decision, By: d.By, Scope: d.Scope}})
	if n := len(a.past) - mostAnswers; n > 0 {
		a.past = slices.Delete(a.past, 0, n)
	}
}

func (a *answers) find(id string) *answer {
	for _, o := range a.past {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// keep notes how to take back something that an answer left.
func (a *answers) keep(id string, back func() error) {
	a.mu.Lock()
	o := a.find(id)
	late := o != nil && o.TakenBack // somebody was faster than who asked
	if o != nil && !late {
		o.back = append(o.back, back)
	}
	a.mu.Unlock()
	if late {
		_ = back()
	}
}

// stands reports whether an answer leaves something, perhaps in a moment: who asked hears of it after all others.
func (o *answer) stands() bool {
	return len(o.back) > 0 || messages.Lasting(o.Kind) && o.Outcome != "withdrawn" && !messages.Unattended(o.By) &&
		(o.Kind == messages.KindGate || o.Scope != string(approval.Once))
}

// ruled notes the rule that an answer became.
func (a *answers) ruled(id string, r approval.Rule) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.find(id); o != nil {
		o.Rule, o.Until = r.ID, r.Until
	}
}

// list returns all, the newest first.
func (a *answers) list() []api.Decided {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]api.Decided, 0, len(a.past))
	for _, o := range slices.Backward(a.past) {
		d := o.Decided
		d.Final = o.final()
		d.Standing = d.Final == ""
		list = append(list, d)
	}
	return list
}

// final says why an answer cannot be taken back; empty: it can.
func (o *answer) final() string {
	switch {
	case o.TakenBack:
		return "it was taken back already"
	case o.stands():
		return ""
	case o.Outcome == "withdrawn":
		return "nobody waited for the answer any more"
	case messages.Unattended(o.By):
		return "nobody answered; it is asked again the next time"
	case messages.Lasting(o.Kind):
		return "it stood for that once only"
	case o.Kind == messages.KindCommand:
		return "it was about one start of a command"
	case o.Outcome == "allow":
		return fmt.Sprintf("it was about what step %d did; 'sandbox undo' puts back what a step did", o.Step)
	}
	return fmt.Sprintf("it was about what step %d was to do", o.Step)
}

// take takes an answer back, and returns it as it was.
func (a *answers) take(id string) (api.Decided, error) {
	o, back, err := a.begin(id)
	if err != nil {
		return api.Decided{}, err
	}
	var errs []error
	for _, f := range back { // they may write files: not with the lock
		errs = append(errs, f())
	}
	err = errors.Join(errs...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		o.TakenBack, o.back = false, back
		return api.Decided{}, fmt.Errorf("%s: %w", id, err)
	}
	return o.Decided, nil
}

// begin marks an answer as taken back, and returns what has to be done for that.
func (a *answers) begin(id string) (*answer, []func() error, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.find(id)
	switch {
	case o == nil:
		if _, waits := a.open[id]; waits {
			return nil, nil, fmt.Errorf("%w: %s waits for its answer still", api.ErrStands, id)
		}
		return nil, nil, fmt.Errorf("%w: %s", messages.ErrNoSafeguard, id)
	case o.final() != "":
		return nil, nil, fmt.Errorf("%w: %s: %s", api.ErrStands, id, o.final())
	}
	back := o.back
	o.TakenBack, o.back = true, nil
	return o, back, nil
}

// Decisions implements [api.Decisions].
func (s *Session) Decisions(context.Context) ([]api.Decided, error) { return s.answers.list(), nil }

// TakeBack implements [api.Decisions]. It is in the audit log as a decision of its own.
func (s *Session) TakeBack(_ context.Context, r api.TakeBackRequest) error {
	d, err := s.answers.take(r.ID)
	if err != nil {
		return err
	}
	s.to("audit")(&approval.AuditRecord{Decision: messages.Decision{
		At: s.clock.Now(), ID: d.ID, Kind: d.Kind, Directory: d.Directory, Step: int64(d.Step), Count: d.Count,
		Message: "taken back: " + d.Outcome + " " + d.Message, Decision: "taken back", By: r.By, Rule: d.Rule, Scope: d.Scope,
	}})
	s.bus.Emit(api.Event{
		Type: api.EventTakenBack, Directory: d.Directory, Step: d.Step, Message: d.ID + " was taken back by " + r.By,
		Decision: &api.DecideRequest{ID: d.ID, By: r.By},
	})
	return nil
}
