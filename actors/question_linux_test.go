package actors

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A command with a question runs when it is allowed, and not at all otherwise:
// no step is left of it, and the next one runs.
func TestCommandWaitsToBeAllowed(t *testing.T) {
	for _, how := range []string{"allow", "deny", "cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, 1, nil)
			ran := make(chan struct{}, 1)
			l.runtime.run = func(*fakeProcess) int { ran <- struct{}{}; return 0 }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			from := api.Origin{Frontend: "mcp", RequestID: "r1"}
			type outcome struct {
				api.RunResult
				err error
			}
			done := make(chan outcome, 1)
			go func() {
				res, err := l.s.Run(ctx, api.RunRequest{Argv: []string{"cmd"}, Question: "May it?", Origin: from})
				done <- outcome{res, err}
			}()
			e := l.event(api.EventSafeguardTriggered)
			if p := e.Pending; p == nil || p.Kind != messages.KindCommand || p.Message != "May it?" || p.Command != "cmd" || p.Directory != l.dirs[0] || p.Step != 0 || e.Origin != from {
				t.Fatalf("%+v, %+v", e.Pending, e.Origin)
			}
			st, err := l.s.Status(t.Context())
			if err != nil || st.Pending != 1 || st.OpenStep != nil {
				t.Errorf("status: %+v, %v", st, err)
			}
			switch how {
			case "cancel":
				cancel()
			case "close":
				if err := l.s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			default:
				if err := l.s.Decide(t.Context(), api.DecideRequest{ID: e.Pending.ID, Allow: how == "allow", By: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			res := actortest.Within(t, "run", done)
			want := map[string]string{"allow": messages.OutcomeCompleted, "deny": messages.OutcomeDenied, "cancel": messages.OutcomeCancelled, "close": messages.OutcomeDenied}[how]
			if how != "close" && (res.err != nil || res.Outcome != want) || how == "close" && res.err == nil && res.Outcome != want {
				t.Errorf("%+v, %v", res.RunResult, res.err)
			}
			if (res.Step != 0) != (how == "allow") || (len(ran) == 1) != (how == "allow") {
				t.Errorf("step %d, ran %d times", res.Step, len(ran))
			}
			if how == "close" {
				return
			}
			if d := l.event(api.EventSafeguardDecided); d.Origin != from && how != "cancel" {
				t.Errorf("decided: %+v", d.Origin)
			}
			if how == "deny" && !strings.Contains(res.Reason, "by test") {
				t.Errorf("reason %q", res.Reason)
			}
			l.mustRun(func() error { return nil })
		})
	}
}

// A question about a command stays when another one is taken back, whatever that is about.
func TestWithdrawnQuestionAlone(t *testing.T) {
	l := newLab(t, 1, nil)
	l.runtime.run = func(*fakeProcess) int { return 0 }
	done := make(chan error, 1)
	go func() {
		res, err := l.s.Run(t.Context(), api.RunRequest{Argv: []string{"cmd"}, Question: "May it?"})
		if err == nil && res.Outcome != messages.OutcomeCompleted {
			err = errors.New(res.Reason)
		}
		done <- err
	}()
	command := l.event(api.EventSafeguardTriggered).Pending
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = l.opening().ask(ctx, gate.Question{Path: "/opt/sdk"})
	}()
	if read := l.event(api.EventSafeguardTriggered).Pending; read.Kind != messages.KindGate {
		t.Fatalf("%+v", read)
	}
	cancel()
	actortest.Eventually(t, "one is left", func() bool {
		p, err := l.s.Pending(t.Context())
		return err == nil && len(p) == 1
	})
	if err := l.s.Decide(t.Context(), api.DecideRequest{ID: command.ID, Allow: true, By: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := actortest.Within(t, "run", done); err != nil {
		t.Error(err)
	}
}
