package actors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// decideNext answers the question that the session asks next.
func decideNext(l *lab, r api.DecideRequest) {
	l.t.Helper()
	r.ID, r.By = l.event(api.EventSafeguardTriggered).Pending.ID, "test"
	if err := l.s.Decide(l.t.Context(), r); err != nil {
		l.t.Fatal(err)
	}
}

// An answer that was given for a time is asked again after it.
func TestAnswerForATime(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	clock := actortest.NewFakeClock()
	for _, scope := range []string{"session", "project"} {
		l := newLab(t, 1, func(c *api.Config) { c.Network.Mode, c.Clock = policy.Ask, clock })
		q := policy.Question{Lookup: true, Domain: scope + ".test"}
		answers := make(chan policy.Answer, 1)
		ask := func() {
			a, err := l.s.askNetwork(t.Context(), q)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}
		go ask()
		decideNext(l, api.DecideRequest{Allow: true, Scope: scope, For: time.Hour})
		if a := actortest.Within(t, "answer", answers); !a.Allow || !a.Once {
			t.Errorf("%s: %+v", scope, a)
		}
		ask() // nobody is asked
		if a := actortest.Within(t, "kept answer", answers); !a.Allow || !a.Once {
			t.Errorf("%s, kept: %+v", scope, a)
		}
		clock.Advance(time.Hour)
		go ask()
		decideNext(l, api.DecideRequest{})
		if a := actortest.Within(t, "answer after the time", answers); a.Allow {
			t.Errorf("%s, after its time: %+v", scope, a)
		}
	}
}

// An answer about a path is a rule, too: it stands for what is below a directory, and in the next session.
func TestReadAnswersAreKept(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	l, other := newLab(t, 1, nil), newLab(t, 1, nil)
	answered := make(chan bool, 1)
	ask := func(l *lab, path string, dir bool) {
		allow, err := l.opening().ask(t.Context(), gate.Question{Path: path, Dir: dir})
		if err != nil {
			t.Error(err)
		}
		answered <- allow
	}
	for _, c := range []struct {
		path, scope string
		dir, allow  bool
	}{{"/opt/sdk*", "user", true, true}, {"/opt/keys", "user", false, false}, {"/opt/here", "project", false, true}} {
		go ask(l, c.path, c.dir)
		decideNext(l, api.DecideRequest{Allow: c.allow, Scope: c.scope})
		if got := actortest.Within(t, "answer", answered); got != c.allow {
			t.Errorf("%s: %t", c.path, got)
		}
		ask(l, c.path, c.dir) // nobody is asked
		if got := actortest.Within(t, "kept answer", answered); got != c.allow {
			t.Errorf("%s, kept: %t", c.path, got)
		}
	}
	for path, want := range map[string]bool{"/opt/sdk*/lib/x.so": true, "/opt/keys": false} {
		ask(other, path, false)
		if got := actortest.Within(t, "answer in another folder", answered); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	go ask(other, "/opt/here", false) // it is the other folder's
	decideNext(other, api.DecideRequest{Allow: false})
	if actortest.Within(t, "answer", answered) {
		t.Error("allowed by another folder's answer")
	}
}

// An answer that was taken back is asked again, wherever it was kept; what cannot be taken back says why.
func TestTakeBack(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	l := newLab(t, 1, nil)
	answered := make(chan bool, 1)
	ask := func(path string) {
		allow, err := l.opening().ask(t.Context(), gate.Question{Path: path})
		if err != nil {
			t.Error(err)
		}
		answered <- allow
	}
	for _, scope := range []string{"once", "session", "project", "user"} {
		path := "/opt/" + scope
		go ask(path)
		decideNext(l, api.DecideRequest{Allow: true, Scope: scope})
		actortest.Within(t, "answer", answered)
		list, err := l.s.Decisions(t.Context())
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		d := list[0]
		if !d.Standing || d.Outcome != "allow" || d.Scope != scope || (d.Rule == "") != (scope == "once") {
			t.Errorf("%s: %+v", scope, d)
		}
		back := api.TakeBackRequest{ID: d.ID, By: "test"}
		if err := l.s.TakeBack(t.Context(), back); err != nil {
			t.Errorf("%s: %v", scope, err)
		}
		if e := l.event(api.EventTakenBack); e.Decision == nil || e.Decision.ID != d.ID {
			t.Errorf("%s: %+v", scope, e)
		}
		if err := l.s.TakeBack(t.Context(), back); !errors.Is(err, api.ErrStands) {
			t.Errorf("%s, a second time: %v", scope, err)
		}
		go ask(path)
		decideNext(l, api.DecideRequest{}) // it is asked again
		if actortest.Within(t, "answer", answered) {
			t.Errorf("%s: allowed", scope)
		}
	}
	rules, err := l.s.book.Rules()
	for _, r := range rules {
		if err != nil || r.Action != approval.Deny || r.Scope != approval.Session {
			t.Errorf("left: %v, %v", r, err)
		}
	}
	if err := l.s.TakeBack(t.Context(), api.TakeBackRequest{ID: "sg_999"}); !errors.Is(err, messages.ErrNoSafeguard) {
		t.Errorf("an unknown one: %v", err)
	}
	// A rule that somebody has put in its place stays.
	go ask("/opt/changed")
	decideNext(l, api.DecideRequest{Allow: true, Scope: "user"})
	actortest.Within(t, "answer", answered)
	if _, err := l.s.book.Remember(approval.Rule{Operation: approval.Read, Subject: "/opt/changed", Action: approval.Deny, Scope: approval.User}); err != nil {
		t.Fatal(err)
	}
	list, _ := l.s.Decisions(t.Context())
	if err := l.s.TakeBack(t.Context(), api.TakeBackRequest{ID: list[0].ID}); err == nil || !strings.Contains(err.Error(), "policy remove") {
		t.Errorf("a changed one: %v", err)
	}
}

// What a step was let do has been done: there is no answer to take back.
func TestTakeBackOfWhatWasDone(t *testing.T) {
	a := answers{}
	for i, c := range []struct{ kind, outcome, by, why string }{
		{messages.KindDelete, "allow", "cli", "sandbox undo"},
		{messages.KindDelete, "deny", "cli", "was to do"},
		{messages.KindCommand, "allow", "cli", "start of a command"},
		{messages.KindGate, "deny", messages.ByTimeout, "nobody answered"},
		{messages.KindGate, "withdrawn", "nobody waits any more", "nobody waited"},
		{messages.KindProtected, "allow", "cli", "once only"},
	} {
		id := fmt.Sprint("sg_", i)
		a.asked(api.Pending{ID: id, Kind: c.kind, Step: 3})
		if _, err := a.take(id); !errors.Is(err, api.ErrStands) || !strings.Contains(err.Error(), "waits") {
			t.Errorf("%s, undecided: %v", c.kind, err)
		}
		a.decided(messages.Decision{ID: id, Kind: c.kind, Decision: c.outcome, By: c.by, Scope: "once"})
		if _, err := a.take(id); !errors.Is(err, api.ErrStands) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.kind, err, c.why)
		}
	}
	for i := range 2 * mostAnswers {
		id := fmt.Sprint("many_", i)
		a.asked(api.Pending{ID: id})
		a.decided(messages.Decision{ID: id})
	}
	if n := len(a.list()); n != mostAnswers || len(a.open) != 0 {
		t.Errorf("%d are kept, %d open", n, len(a.open))
	}
}

// TestReadAnswersEnd: what was decided about a path does not stand when its time is over, nor when a rule says otherwise meanwhile.
func TestReadAnswersEnd(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	clock := actortest.NewFakeClock()
	l := newLab(t, 1, func(c *api.Config) { c.Clock = clock })
	o := l.opening()
	ask := func(path string, r api.DecideRequest) gate.Question {
		t.Helper()
		q := gate.Question{Path: path, Dir: true}
		done := make(chan error, 1)
		go func() {
			allow, err := o.ask(t.Context(), q)
			if err == nil && allow != r.Allow {
				err = fmt.Errorf("%s: %v", path, allow)
			}
			done <- err
		}()
		decideNext(l, r)
		if err := actortest.Within(t, "answer", done); err != nil {
			t.Fatal(err)
		}
		return q
	}
	stands := func(q gate.Question, allow, want bool) {
		t.Helper()
		if got := o.stands(q, allow); got != want {
			t.Errorf("%s: %v", q.Path, got)
		}
	}
	hour := ask("/opt/hour", api.DecideRequest{Allow: true, For: time.Hour})
	good := ask("/opt/good", api.DecideRequest{Allow: true})
	not := ask("/opt/not", api.DecideRequest{Scope: "once"})
	stands(hour, true, true)
	stands(good, true, true)
	stands(not, false, true)
	clock.Advance(2 * time.Hour)
	stands(hour, true, false)
	stands(good, true, true)
	for _, r := range []approval.Rule{
		{Operation: approval.Read, Action: approval.Deny, Scope: approval.User, Subject: "/opt/good/**"},
		{Operation: approval.Read, Action: approval.Allow, Scope: approval.User, Subject: "/opt/not/**"},
	} {
		if _, err := l.s.book.Remember(r); err != nil {
			t.Fatal(err)
		}
	}
	stands(good, true, false)
	stands(not, false, false)
}
