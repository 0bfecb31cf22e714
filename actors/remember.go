package actors

import (
	"fmt"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/messages"
)

// newBook opens the policy of the session's first folder: what rules and earlier answers
// decide instead of a person.
func (s *Session) newBook() {
	state, err := StateDir()
	if err != nil {
		state = "" // no home directory: a project has no rules
	}
	places := approval.Standard(state, s.cfg.Directories[0].Path)
	s.book = approval.NewBook(places, s.clock.Now)
	if s.cfg.Runtime != nil { // for a look at the history nothing is converted
		_, s.unconverted = places.Convert(s.clock.Now())
	}
}

// remembered answers a question of this kind by the rules of the policy, among which are the
// answers that a person gave before. ok is false if a person has to be asked. What a rule decides
// is in the audit log, with the question's text. The rules are read each time: they may change while
// the session runs.
func (s *Session) remembered(kind string, q approval.Query, question string) (allow, ok bool) {
	d := s.book.Decide(q)
	if d.Action != approval.Allow && d.Action != approval.Deny {
		return false, false
	}
	s.auditRule(kind, question, d)
	return d.Action == approval.Allow, true
}

func (s *Session) auditRule(kind, question string, d approval.Decision) {
	decision := messages.Decision{
		At: s.clock.Now(), Kind: kind, Directory: s.dirs[0].Config.Path, Step: int64(s.board.Load().Step),
		Message: question, Decision: string(d.Action), By: messages.ByRule, Rule: d.Why,
	}
	if d.Rule != nil && d.Rule.Answer != "" {
		decision.By, decision.Scope = messages.ByKept, string(d.Scope)
	}
	s.to("audit")(&approval.AuditRecord{Decision: decision})
}

// remember keeps a person's answer as a rule about the operation on subject, as long and where
// the answer says; an answer for once is not kept. If it cannot be kept, it stands for what
// has asked, and that is said.
func (s *Session) remember(kind string, op approval.Operation, subject string, a *messages.Answer) {
	scope, err := approval.ParseScope(a.Scope, approval.Session)
	if err != nil || scope == approval.Once {
		return
	}
	r := approval.Rule{Operation: op, Subject: subject, Action: approval.Deny, Scope: scope, By: a.By, Answer: kind}
	if a.Allow {
		r.Action = approval.Allow
	}
	r.Until = end(a, s.clock.Now())
	r, err = s.book.Remember(r)
	if err != nil {
		s.bus.Emit(api.Event{Type: api.EventWarning, Message: fmt.Sprintf("the answer to %s is not kept: %v", a.ID, err)})
		return
	}
	s.answers.ruled(a.ID, r)
	s.answers.keep(a.ID, func() error { return s.book.Forget(r) })
}

// end is when an answer ends that was given for a time, or zero.
func end(a *messages.Answer, now time.Time) time.Time {
	if a.For <= 0 {
		return time.Time{}
	}
	return now.Add(a.For).UTC().Truncate(time.Second)
}
