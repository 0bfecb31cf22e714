package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// gate makes what holds the names in a directory of the host until a person allows them.
func (s *Session) gate(dir string) hypervisor.Share {
	g := &opening{s: s, ends: make(map[string]time.Time)}
	g.gate = gate.New(gate.Options{Path: dir, Ask: g.ask, Stands: g.stands, Denied: s.readDenied, Unpromoted: func(path string, why error) {
		s.cfg.Logger.Debug("a directory that was opened is read through its gate", "component", "gate", "path", path, "err", why)
	}})
	return hypervisor.Share{HostPath: dir, GuestPath: dir, ReadOnly: true, Serve: func(t hypervisor.Transport) error {
		if t.Kind != hypervisor.TransportFUSE {
			return fmt.Errorf("gate %s: it needs FUSE, not transport %d", dir, t.Kind)
		}
		_, err := g.gate.Serve(t.File, gate.Mount{Hidden: t.Hide, Passages: t.Passages, Open: t.Open, Lower: t.Lower, Promote: t.Promote, HostPID: t.HostPID}) // it ends with the mount
		return err
	}}
}

// opening is a gate of a session. Its methods are safe for concurrent use.
type opening struct {
	s    *Session
	gate *gate.Gate

	mu   sync.Mutex
	ends map[string]time.Time // of answers and rules that hold for a time, by path
}

// until notes how long what is decided about a path holds; for good if end is zero.
func (o *opening) until(path string, end time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.ends, path); !end.IsZero() {
		o.ends[path] = end
	}
}

// stands reports whether what was decided holds still: its time is not over, and no rule says otherwise meanwhile.
func (o *opening) stands(q gate.Question, allow bool) bool {
	now := o.s.clock.Now()
	o.mu.Lock()
	end, bounded := o.ends[q.Path]
	o.mu.Unlock()
	if bounded && !now.Before(end) {
		return false
	}
	d := ruledRead(o.s.book, q, now)
	return d.Action == approval.None || (d.Action == approval.Allow) == allow
}

// ruledRead is what the policy says of a question, or nothing if a person has to decide: yes to a directory
// opens all that is in it, so a rule has to allow that, and no other may say otherwise of a part.
func ruledRead(book *approval.Book, q gate.Question, now time.Time) approval.Decision {
	d := book.Decide(approval.Query{Operation: approval.Read, Path: q.Path})
	switch {
	case d.Action == approval.Deny, d.Action == approval.Allow && !q.Dir:
		return d
	case d.Action != approval.Allow || d.Rule == nil:
		return approval.Decision{}
	}
	all, err := approval.Rule{Operation: approval.Read, Action: approval.Allow, Scope: approval.Session, Subject: approval.Below(q.Path)}.Checked("")
	rules, unread := book.Rules()
	if err != nil || unread != nil || !d.Rule.Covers(all) {
		return approval.Decision{}
	}
	for _, r := range rules {
		if r.Operation == approval.Read && r.Action != approval.Allow && !r.Ended(now) && !r.Covers(all) && mayLieIn(r.Subject, q.Path) {
			return approval.Decision{}
		}
	}
	return d
}

// opened are the directories that the policy opens from the start.
func (s *Session) opened() (dirs []string) {
	for dir, d := range openedByRules(s.book, s.clock.Now()) {
		s.auditRule(messages.KindGate, gate.Question{Path: dir, Dir: true}.String(), d)
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// openedByRules are the directories that rules for good allow to be read as a whole.
func openedByRules(book *approval.Book, now time.Time) map[string]approval.Decision {
	rules, err := book.Rules()
	if err != nil {
		return nil
	}
	opened := make(map[string]approval.Decision)
	for _, r := range rules {
		dir, below := strings.CutSuffix(r.Subject, "/**")
		if r.Operation != approval.Read || r.Action != approval.Allow || !r.Until.IsZero() || !below || approval.Below(dir) != r.Subject {
			continue
		}
		if d := ruledRead(book, gate.Question{Path: dir, Dir: true}, now); d.Action == approval.Allow {
			opened[dir] = d
		}
	}
	return opened
}

// mayLieIn reports whether a pattern can stand for something in a directory.
func mayLieIn(pattern, dir string) bool {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		pattern = pattern[:i]
		return strings.HasPrefix(pattern, dir+"/") || strings.HasPrefix(dir+"/", pattern)
	}
	return strings.HasPrefix(pattern, dir+"/")
}

// subjectOf is what a rule about a question would name.
func subjectOf(q gate.Question) string {
	if q.Dir {
		return approval.Below(q.Path)
	}
	return approval.Exactly(q.Path)
}

// ask has a person decide about a path of the host, as about a safeguard, unless a rule of
// the policy decides. That nobody decided is an error, so that it is not remembered.
func (o *opening) ask(ctx context.Context, q gate.Question) (bool, error) {
	s := o.s
	if d := ruledRead(s.book, q, s.clock.Now()); d.Action != approval.None {
		s.auditRule(messages.KindGate, q.String(), d)
		o.until(q.Path, ruleEnd(d))
		return d.Action == approval.Allow, nil
	}
	if !s.attended() || s.nobody.there(s.clock.Now()) {
		s.unanswered(q)
		return false, errNobody
	}
	a, err := s.decided(ctx, &messages.Ask{
		Kind: messages.KindGate, Directory: s.dirs[0].Config.Path, Step: int64(s.board.Load().Step), Count: 1, Message: q.String(),
		Command: s.openCommand(), Callers: processes(q.Callers),
	})
	switch {
	case err != nil:
		return false, err
	case !a.Allow && messages.Unattended(a.By):
		s.unanswered(q)
		return false, messages.Undecided(a.ID, a.By)
	}
	s.remember(messages.KindGate, approval.Read, subjectOf(q), a)
	o.until(q.Path, end(a, s.clock.Now()))
	s.answers.keep(a.ID, func() error { o.gate.Forget(q.Path); return nil })
	return a.Allow, nil
}

// ruleEnd is when the rule that has decided ends, or zero.
func ruleEnd(d approval.Decision) time.Time {
	if d.Rule == nil {
		return time.Time{}
	}
	return d.Rule.Until
}

// absent is how long nobody is thought to be there after a question that nobody has answered in time.
const absent = 5 * time.Minute

// errNobody is why a read is denied without a question.
var errNobody = errors.New("nobody has answered the question before")

// absence knows whether somebody answers questions.
type absence struct {
	mu    sync.Mutex
	until time.Time
	told  map[string]bool // the paths that were refused
}

// there reports whether nobody is.
func (a *absence) there(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.until)
}

// heard notes who has decided a question.
func (a *absence) heard(by string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case by == messages.ByTimeout:
		a.until = now.Add(absent)
	case !messages.Unattended(by) && by != messages.ByRule:
		a.until = time.Time{}
	}
}

// first reports whether a path was not refused before.
func (a *absence) first(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told[path] || len(a.told) >= gate.MaxQuestions {
		return false
	}
	if a.told == nil {
		a.told = make(map[string]bool)
	}
	a.told[path] = true
	return true
}

// unanswered says once of a path what would allow it.
func (s *Session) unanswered(q gate.Question) {
	s.tellRefused(q.Path, q.String(), string(approval.Read), subjectOf(q))
}

// tellRefused says once, for each key, that nobody has answered a question, and which rule would allow it.
func (s *Session) tellRefused(key, question, operation, subject string) {
	if !s.nobody.first(key) {
		return
	}
	step, why := s.board.Load().Step, "nobody answered"
	if !s.attended() {
		why = messages.Undecided("", messages.ByNobody).Error()
	}
	s.warn(api.Event{
		Step:    step,
		Message: question + " was refused, since " + why + "; to allow it: " + api.ShellQuote("sandbox", "policy", "add", "allow", operation, subject),
	})
}

// processes are those who ask, as messages have them.
func processes(callers []gate.CallingProcess) (list []messages.Process) {
	for _, p := range callers {
		list = append(list, messages.Process(p))
	}
	return list
}

// readDenied notes what was refused.
func (s *Session) readDenied(q gate.Question, why error) {
	s.cfg.Logger.Info("read denied", "component", "gate", "path", q.Path, "err", why)
}
