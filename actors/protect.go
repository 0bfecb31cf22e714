package actors

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// protection is what decides about writing to the folders: the policy, and what is protected
// in every folder.
func (s *Session) protection() directory.Protection {
	told := &refusals{}
	return directory.Protection{
		Entry: approval.Entry, Carries: approval.Carries, Targets: lasting(approval.Targets),
		Writes: func(folder string) interceptor.Writes {
			if w := s.book.Writes(folder); w != nil {
				return writeRules{w}
			}
			return nil
		},
		Remember: func(path string, below bool, a *messages.Answer) {
			subject := approval.Exactly(path)
			if below {
				subject = approval.Below(path)
			}
			s.remember(messages.KindProtected, approval.Write, subject, a)
			s.answers.keep(a.ID, func() error { s.forgetWrite(path); return nil })
		},
		Refused: func(folder, path, rule string) {
			step := s.board.Load().Step
			if !told.first(step, folder+"/"+path) {
				return
			}
			s.auditRule(messages.KindProtected, "write "+folder+"/"+path, approval.Decision{Action: approval.Deny, Why: rule})
			s.warn(api.Event{Directory: folder, Step: step, Message: fmt.Sprintf("writing to %q was refused by %s", path, rule)})
		},
	}
}

// forgetWrite has the step that is open ask again about writing to a path.
func (s *Session) forgetWrite(path string) {
	for i, w := range s.dirs {
		if entry, ok := strings.CutPrefix(path, w.Config.Path+"/"); ok {
			s.to(folder(i, "interceptor"))(&interceptor.Forget{Entry: entry})
		}
	}
}

// writeRules are the policy's, as an Interceptor asks them.
type writeRules struct{ *approval.Writes }

func (w writeRules) Decide(path string) (v interceptor.Verdict, general bool, why string) {
	action, general, why := w.Writes.Decide(path)
	return map[approval.Action]interceptor.Verdict{
		approval.Allow: interceptor.Allowed, approval.Ask: interceptor.Asked, approval.Deny: interceptor.Denied,
	}[action], general, why
}

// refusals are those of a step that somebody was told of. A program may try again and again.
type refusals struct {
	mu   sync.Mutex
	step undolog.StepID
	told map[string]bool
}

// maxRefusals bounds how many different ones of a step are told.
const maxRefusals = 100

func (r *refusals) first(step undolog.StepID, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil || r.step != step {
		r.step, r.told = step, make(map[string]bool)
	}
	if r.told[path] || len(r.told) >= maxRefusals {
		return false
	}
	r.told[path] = true
	return true
}

// maxTargets bounds what is remembered of a folder's targets.
const maxTargets = 256

// lasting adds to what is found of a folder what was found before: the file that said so may have been replaced by one that cannot be read any more.
func lasting(find func(folder string) [][]string) func(folder string) [][]string {
	var mu sync.Mutex
	found := map[string][][]string{}
	return func(folder string) [][]string {
		now := find(folder)
		mu.Lock()
		defer mu.Unlock()
		for _, target := range found[folder] {
			if len(now) < maxTargets && !slices.ContainsFunc(now, func(t []string) bool { return slices.Equal(t, target) }) {
				now = append(now, target)
			}
		}
		found[folder] = now
		return slices.Clone(now)
	}
}
