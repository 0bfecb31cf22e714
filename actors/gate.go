package actors

import (
	"context"
	"fmt"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// gates are the directories whose names a person has to allow, as the guest mounts them: beside
// the folders, read-only.
func (s *Session) gates() []hypervisor.Share {
	var passages []string
	for _, w := range s.dirs {
		passages = append(passages, w.Config.Path)
	}
	passages = append(passages, s.cfg.Gate...)
	var shares []hypervisor.Share
	for _, path := range s.cfg.Gate {
		g := gate.New(gate.Options{Path: path, Passages: passages, Ask: s.askRead, Denied: s.readDenied})
		shares = append(shares, hypervisor.Share{HostPath: path, GuestPath: path, ReadOnly: true, Serve: func(t hypervisor.Transport) error {
			if t.Kind != hypervisor.TransportFUSE {
				return fmt.Errorf("gate %s: it needs FUSE, not transport %d", path, t.Kind)
			}
			_, err := g.Serve(t.File, t.Hide, t.HostPID) // it ends with the mount
			return err
		}})
	}
	return shares
}

// askRead has a person decide about a path of the host, as about a safeguard, unless a rule of
// the policy decides. That nobody decided is an error, so that it is not remembered.
func (s *Session) askRead(ctx context.Context, q gate.Question) (bool, error) {
	if allow, ok := s.remembered(messages.KindGate, approval.Query{Operation: approval.Read, Path: q.Path}, q.String()); ok {
		return allow, nil
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
