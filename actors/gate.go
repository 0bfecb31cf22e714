package actors

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// gate makes what holds the names in a directory of the host until a person allows them.
func (s *Session) gate(dir string) hypervisor.Share {
	g := gate.New(gate.Options{Path: dir, Ask: s.askRead, Denied: s.readDenied})
	return hypervisor.Share{HostPath: dir, GuestPath: dir, ReadOnly: true, Serve: func(t hypervisor.Transport) error {
		if t.Kind != hypervisor.TransportFUSE {
			return fmt.Errorf("gate %s: it needs FUSE, not transport %d", dir, t.Kind)
		}
		_, err := g.Serve(t.File, gate.Mount{Hidden: t.Hide, Passages: t.Passages, Open: t.Open, Lower: t.Lower, HostPID: t.HostPID}) // it ends with the mount
		return err
	}}
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

// mayLieIn reports whether a pattern can stand for something in a directory.
func mayLieIn(pattern, dir string) bool {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		pattern = pattern[:i]
		return strings.HasPrefix(pattern, dir+"/") || strings.HasPrefix(dir+"/", pattern)
	}
	return strings.HasPrefix(pattern, dir+"/")
}

// askRead has a person decide about a path of the host, as about a safeguard, unless a rule of
// the policy decides. That nobody decided is an error, so that it is not remembered.
func (s *Session) askRead(ctx context.Context, q gate.Question) (bool, error) {
	if d := ruledRead(s.book, q, s.clock.Now()); d.Action != approval.None {
		s.auditRule(messages.KindGate, q.String(), d)
		return d.Action == approval.Allow, nil
	}
	a, err := s.decided(ctx, &messages.Ask{
		Kind: messages.KindGate, Directory: s.dirs[0].Config.Path, Step: int64(s.board.Load().Step), Count: 1, Message: q.String(),
	})
	switch {
	case err != nil:
		return false, err
	case !a.Allow && messages.Unattended(a.By):
		return false, fmt.Errorf("%s: %s", a.ID, a.By)
	}
	subject := approval.Exactly(q.Path)
	if q.Dir {
		subject = approval.Below(q.Path)
	}
	s.remember(messages.KindGate, approval.Read, subject, a)
	return a.Allow, nil
}

// readDenied notes what was refused.
func (s *Session) readDenied(q gate.Question, why error) {
	s.cfg.Logger.Info("read denied", "component", "gate", "path", q.Path, "err", why)
}
