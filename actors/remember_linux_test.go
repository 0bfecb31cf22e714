package actors

import (
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
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
		allow, err := l.s.askRead(t.Context(), gate.Question{Path: path, Dir: dir})
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
