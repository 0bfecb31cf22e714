package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/fulldisk"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// opening is a gate at /opt.
func (l *lab) opening() *opening {
	return &opening{s: l.s, gate: gate.New(gate.Options{Path: "/opt"}), ends: make(map[string]time.Time)}
}

// reading asks whether a path may be read, as a gate does.
func (l *lab) reading(ctx context.Context, path string) <-chan error {
	done := make(chan error, 1)
	go func() {
		allow, err := l.opening().ask(ctx, gate.Question{Path: path})
		if err == nil && !allow {
			err = errors.New("denied")
		}
		done <- err
	}()
	return done
}

// audited are the lines of the audit log about a question, once they are written.
func (l *lab) audited(id string) (lines []string) {
	l.t.Helper()
	actortest.Eventually(l.t, "an audit line about "+id, func() bool {
		lines = nil
		log, err := os.ReadFile(filepath.Join(l.dirs[0]+".undo", "decisions.jsonl"))
		for line := range strings.Lines(string(log)) {
			if strings.HasSuffix(line, "\n") && strings.Contains(line, fmt.Sprintf("%q", id)) { // else it is being written
				lines = append(lines, line)
			}
		}
		return err == nil && len(lines) > 0
	})
	return lines
}

// unkept fails if a rule was kept.
func (l *lab) unkept() {
	l.t.Helper()
	if rules, err := l.s.book.Rules(); err != nil || len(rules) != 0 {
		l.t.Errorf("kept: %v, %v", rules, err)
	}
}

// An answer that comes after the program that asked is gone, or after the session, is an error that says so; nothing of it is
// kept, and the audit log has no decision.
func TestAnswerTooLate(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	l := newLab(t, 1, nil)
	c, err := Dial(t.Context(), l.s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	ctx, die := context.WithCancel(t.Context())
	done := l.reading(ctx, "/opt/gone")
	id := l.event(api.EventSafeguardTriggered).Pending.ID
	die()
	if err := actortest.Within(t, "the end", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	actortest.Eventually(t, "it is withdrawn", func() bool {
		p, err := l.s.Pending(t.Context())
		return err == nil && len(p) == 0
	})
	for name, s := range map[string]interface {
		Decide(context.Context, api.DecideRequest) error
	}{"here": l.s, "another process": c} {
		for _, allow := range []bool{true, false} {
			err := s.Decide(t.Context(), api.DecideRequest{ID: id, Allow: allow, Scope: "user", By: "cli"})
			var d *messages.DecidedError
			if !errors.As(err, &d) || d.By != messages.ByWithdrawn || !errors.Is(err, messages.ErrNoSafeguard) || !strings.Contains(err.Error(), "has ended") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	l.unkept()
	if lines := l.audited(id); len(lines) != 1 || !strings.Contains(lines[0], `"decision":"withdrawn"`) {
		t.Errorf("%q", lines)
	}
	asked := l.reading(t.Context(), "/opt/gone") // nothing was remembered
	decideNext(l, api.DecideRequest{Allow: true, Scope: "once"})
	if err := actortest.Within(t, "the next answer", asked); err != nil {
		t.Error(err)
	}

	held := l.reading(t.Context(), "/opt/last")
	last := l.event(api.EventSafeguardTriggered).Pending.ID
	if err := l.s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := actortest.Within(t, "the session's end", held); err == nil {
		t.Error("allowed by the end of the session")
	}
	if err := l.s.Decide(t.Context(), api.DecideRequest{ID: last, Allow: true, Scope: "user", By: "cli"}); err == nil {
		t.Error("decided after the session")
	}
	if err := c.Decide(t.Context(), api.DecideRequest{ID: last, Allow: true, Scope: "user", By: "cli"}); err == nil {
		t.Error("decided by another process after the session")
	}
	l.unkept()
}

// Two answers at once, from this process and from another one: one wins and is told so, the other is told who has won, what asked
// gets the winner's, and the audit log has that one alone.
func TestTwoAnswersAtOnce(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	l := newLab(t, 1, nil)
	c, err := Dial(t.Context(), l.s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for round := range 50 {
		done := l.reading(t.Context(), fmt.Sprint("/opt/", round))
		id := l.event(api.EventSafeguardTriggered).Pending.ID
		both := []struct {
			by    string
			allow bool
			s     interface {
				Decide(context.Context, api.DecideRequest) error
			}
			err chan error
		}{{"approvals", true, l.s, make(chan error, 1)}, {"cli", false, c, make(chan error, 1)}}
		begin := make(chan struct{})
		for _, b := range both {
			go func() {
				<-begin
				b.err <- b.s.Decide(t.Context(), api.DecideRequest{ID: id, Allow: b.allow, By: b.by})
			}()
		}
		close(begin)
		errs := []error{actortest.Within(t, "one", both[0].err), actortest.Within(t, "the other", both[1].err)}
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		var d *messages.DecidedError
		if errs[winner] != nil || !errors.As(errs[1-winner], &d) || d.By != both[winner].by || d.Allow != both[winner].allow {
			t.Fatalf("%v", errs)
		}
		if err := actortest.Within(t, "the answer", done); (err == nil) != both[winner].allow {
			t.Errorf("%s has won: %v", both[winner].by, err)
		}
		if lines := l.audited(id); len(lines) != 1 || !strings.Contains(lines[0], fmt.Sprintf(`"by":%q`, both[winner].by)) {
			t.Errorf("%s has won: %q", both[winner].by, lines)
		}
	}
}

// An answer that cannot be kept, because the disk is full, holds for what has asked; that it is not kept is said, with the
// reason, and what was kept before stays as it was.
func TestAnswerOnFullDisk(t *testing.T) {
	disk := fulldisk.New(t)
	t.Setenv("XDG_STATE_HOME", filepath.Join(disk.Dir, "state"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(disk.Dir, "config"))
	l := newLab(t, 1, nil)
	for _, scope := range []string{"project", "user"} {
		done := l.reading(t.Context(), "/opt/kept/"+scope)
		decideNext(l, api.DecideRequest{Allow: true, Scope: scope})
		if err := actortest.Within(t, "the answer", done); err != nil {
			t.Fatal(err)
		}
	}
	before := treesnap.Contents(t, disk.Dir)
	disk.Fill()
	for _, scope := range []string{"project", "user"} {
		done := l.reading(t.Context(), "/opt/new/"+scope)
		decideNext(l, api.DecideRequest{Allow: true, Scope: scope})
		if err := actortest.Within(t, "the answer", done); err != nil {
			t.Errorf("%s: %v", scope, err)
		}
		if w := l.event(api.EventWarning); !strings.Contains(w.Message, "is not kept") || !strings.Contains(w.Message, "no space left") {
			t.Errorf("%s: %s", scope, w.Message)
		}
	}
	disk.Free()
	after := treesnap.Contents(t, disk.Dir)
	for path, text := range before {
		if strings.TrimSpace(after[path]) != strings.TrimSpace(text) {
			t.Errorf("%s: %q, was %q", path, after[path], text)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s is left", path)
		}
	}
	if rules, err := l.s.book.Rules(); err != nil || len(rules) != 2 {
		t.Errorf("%v, %v", rules, err)
	}
	// Kept answers answer still, and what was not kept is asked again.
	if err := actortest.Within(t, "a kept answer", l.reading(t.Context(), "/opt/kept/user")); err != nil {
		t.Error(err)
	}
	again := l.reading(t.Context(), "/opt/new/user")
	decideNext(l, api.DecideRequest{Allow: true, Scope: "user"})
	if err := actortest.Within(t, "the answer", again); err != nil {
		t.Error(err)
	}
	if rules, err := l.s.book.Rules(); err != nil || len(rules) != 3 {
		t.Errorf("with room: %v, %v", rules, err)
	}
}
