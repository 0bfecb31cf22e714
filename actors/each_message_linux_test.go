package actors

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// scripted is one session whose user does some of everything: commands, one of which is held, two at once, writes
// of a client, undo and redo.
type scripted struct {
	*lab
	ctx    context.Context
	errs   []string // of what was asked, in turn; empty where it worked
	before *treesnap.Snapshot
}

func (s *scripted) note(what string, err error) {
	if err != nil {
		s.errs = append(s.errs, what+": "+err.Error())
	}
}

// command runs f as a command, and says what its user sees.
func (s *scripted) command(what string, f func() error) {
	var inside error
	s.runtime.mu.Lock()
	s.runtime.run = func(*fakeProcess) int {
		if inside = f(); inside != nil {
			return 1
		}
		return 0
	}
	s.runtime.mu.Unlock()
	res, err := s.s.Run(s.ctx, api.RunRequest{Argv: []string{what}, Wait: true})
	if err == nil && res.Outcome != messages.OutcomeCompleted {
		err = fmt.Errorf("%s: %s (%v)", res.Outcome, res.Reason, inside)
	}
	s.note(what, err)
	s.fs[0].Forget() // what was rolled back is not as the commands know it
}

func (s *scripted) script() {
	fs := s.fs[0]
	s.command("changes", func() error {
		return errors.Join(fs.WriteFile("f1", []byte("changed")), fs.WriteFile("new", []byte("n")), fs.Mkdir("dir", 0o755))
	})
	s.command("is held", func() error { return errors.Join(fs.Unlink("f0"), fs.Unlink("f2"), fs.Unlink("f3")) })
	_, err := s.s.WriteFile(s.ctx, api.WriteFileRequest{Path: "written", Data: []byte("w"), Origin: api.Origin{Frontend: "mcp", RequestID: "7"}})
	s.note("write", err)
	s.atOnce()
	s.owned()
	_, err = s.s.Undo(s.ctx, api.UndoRequest{Count: 1})
	s.note("undo", err)
	_, err = s.s.Redo(s.ctx, api.UndoRequest{Count: 1})
	s.note("redo", err)
	fs.Forget()
	s.note("settings", s.s.ConfigureSafeguards(s.ctx, api.Safeguards{DeleteThreshold: 100, Timeout: time.Minute}))
	_, err = s.s.History(s.ctx, api.HistoryRequest{})
	s.note("history", err)
	_, err = s.s.Inspect(s.ctx)
	s.note("inspect", err)
	s.command("the last", func() error { return fs.WriteFile("f1", []byte("at last")) })
}

// atOnce runs two commands in one step.
func (s *scripted) atOnce() {
	var running atomic.Int32
	both := make(chan struct{})
	s.runtime.mu.Lock()
	s.runtime.run = func(*fakeProcess) int {
		if running.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-time.After(100 * time.Millisecond): // the other one was refused
		}
		return 0
	}
	s.runtime.mu.Unlock()
	errs := make(chan error, 2)
	for i := range 2 {
		go func() {
			_, err := s.s.Run(s.ctx, api.RunRequest{Argv: []string{"at once", fmt.Sprint(i)}, Wait: true, Share: true})
			errs <- err
		}()
	}
	for range 2 {
		s.note("at once", <-errs)
	}
}

// owned runs a command of the session, and follows it to its end.
func (s *scripted) owned() {
	s.runtime.mu.Lock()
	s.runtime.run = func(*fakeProcess) int {
		if s.fs[0].WriteFile("owned", []byte("o")) != nil {
			return 1
		}
		return 0
	}
	s.runtime.mu.Unlock()
	st, err := s.s.StartCommand(s.ctx, api.CommandRequest{Argv: []string{"owned"}, Wait: true})
	s.note("start", err)
	if err == nil {
		s.note("follow", s.s.FollowCommand(s.ctx, api.FollowRequest{Number: st.Number}, func(e api.CommandEvent) error {
			if e.Ended != nil && e.Ended.Outcome != messages.OutcomeCompleted {
				s.note("owned", errors.New(e.Ended.Reason))
			}
			return nil
		}))
	}
	_, err = s.s.Commands(s.ctx)
	s.note("commands", err)
	s.fs[0].Forget()
}

// decide allows what is held, as a person beside the session would.
func (s *scripted) decide(e api.Event) {
	if e.Type == api.EventSafeguardTriggered {
		go func() {
			_ = s.s.Decide(s.ctx, api.DecideRequest{ID: e.Pending.ID, Allow: true, By: "test"}) // the safeguard may have crashed: its question ends by its deadline
		}()
	}
}

// restored looks at what the user finds when it is over: a session that works, or says that it has failed and
// comes back by a reset; and every step that is in the history can be undone.
func (s *scripted) restored() error {
	actortest.Eventually(s.t, "commands run again", func() bool {
		s.errs = nil
		s.command("afterwards", func() error { return s.fs[0].WriteFile("afterwards", nil) })
		if st, err := s.s.Status(s.ctx); s.errs != nil && err == nil && st.State == string(session.Failed) {
			s.note("reset", s.s.Reset(s.ctx))
		}
		return s.errs == nil
	})
	for range 20 {
		h, err := s.s.History(s.ctx, api.HistoryRequest{})
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		if !slices.ContainsFunc(h, func(e undolog.Entry) bool { return e.Type != undolog.TypeBarrier && !e.Undone }) {
			return nil
		}
		if _, err := s.s.Undo(s.ctx, api.UndoRequest{Count: 1}); err != nil {
			return fmt.Errorf("undo: %w", err)
		}
	}
	return errors.New("there is always one more step to undo")
}

// TestCrashAtEachMessage crashes each actor of a session at each message that it takes during a script of
// requests, one crash for each run of the script, and looks at what the user sees: nobody waits for ever, each
// request either works or says why not, the session goes on, and what is left can be undone exactly.
func TestCrashAtEachMessage(t *testing.T) {
	for name, part := range map[string]string{ // short names: a socket lies below the test's directory
		"root": "", "audit": "audit", "folder": "directory/0", "log": "directory/0/interceptor", "watch": "directory/0/watcher",
		"clients": "frontends", "machine": "machine", "owned": "commands", "ask": "safeguard", "steps": "steps",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, more := int64(1), true; more; n++ {
				more = false // if this one is not asked for
				t.Run(strconv.FormatInt(n, 10), func(t *testing.T) { more = crashAt(t, part, n) && n < 200 })
			}
		})
	}
}

// crashAt runs the script with a crash at the n-th message of the part, and reports whether there was one.
func crashAt(t *testing.T, part string, n int64) (crashed bool) {
	l := newLab(t, 1, func(c *api.Config) {
		c.Safeguards = api.Safeguards{DeleteThreshold: 3, Timeout: 30 * time.Second}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := &scripted{lab: l, ctx: ctx, before: l.snap(0)}
	defer l.s.Subscribe(s.decide)()
	var taken atomic.Int64
	var at atomic.Value
	l.s.tree.Observe(func(path string, msg any) {
		if path == l.s.path(part) && taken.Add(1) == n {
			at.Store(fmt.Sprintf("%T", msg))
			panic("crash at a message")
		}
	})
	s.script()
	l.s.tree.Observe(nil)
	on, crashed := at.Load().(string)
	seen := s.errs
	if !crashed && len(seen) > 0 {
		t.Errorf("without a crash: %q", seen)
	}
	err := s.restored()
	if err == nil {
		if diff := treesnap.Diff(s.before, l.snap(0), treesnap.Options{}); len(diff) > 0 {
			err = fmt.Errorf("the folder is not as it was: %q", diff)
		}
	}
	if err != nil {
		t.Errorf("crash of %q at message %d, %s: %v; what was asked before: %q", filepath.Base(l.s.path(part)), n, on, err, seen)
	}
	return crashed
}
