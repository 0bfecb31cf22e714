package stdio_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// tapped gives the test what tells the connection's actor something.
type tapped struct {
	api.Live
	at chan api.Attachment
}

func (l tapped) Attach(ctx context.Context, f api.Frontend) (api.Attachment, error) {
	a, err := l.Live.Attach(ctx, f)
	l.at <- a
	return a, err
}

// When the connection's actor crashes, the command ends and is answered, its
// step is kept, and the conversation ends as if the client had gone.
func TestActorCrashEndsTheConversation(t *testing.T) {
	at := make(chan api.Attachment, 1)
	l := newLab(t, labOptions{wrap: func(live api.Live) api.Live { return tapped{live, at} }})
	id := l.Send("agent.execute", map[string]any{"command": "exec sleep 1000"})
	l.Event("event.step_started")
	live := l.live()
	(<-at).Tell("what it does not know")
	if m := l.Response(id); m.Code() != "cancelled" || !strings.Contains(string(m.Line), "crashed") && !strings.Contains(string(m.Line), "disconnected") {
		t.Errorf("%s", m.Line)
	}
	if err := actortest.Within(t, "the end", l.served); !errors.Is(err, messages.ErrCrashed) {
		t.Error(err)
	}
	actortest.Within(t, "the session's end", live.Done())
}

// TestLeavingTakesNothing: while the server ends the conversation (SIGTERM) a client may still send. What it asks for then is refused: a command would not be
// cancelled, and nobody would close a session.
func TestLeavingTakesNothing(t *testing.T) {
	started, release := make(chan context.Context, 1), make(chan struct{})
	l := newLab(t, labOptions{noStart: true, server: func(o *stdio.Options) {
		o.Clock = actortest.NewFakeClock() // nothing is cancelled because it takes long
		start := o.Start
		o.Start = func(ctx context.Context, r stdio.StartRequest, notice func(stdio.Notice)) (api.Live, error) {
			started <- ctx
			<-release
			return start(ctx, r, notice)
		}
	}})
	first := l.Send("session.start", l.directories())
	actortest.Within(t, "the start", started)
	l.end()
	actortest.Eventually(t, "requests to be refused", func() bool { return l.Call("session.status", nil).Code() == "session_ended" })
	for op, payload := range map[string]map[string]any{
		"session.start": l.directories(), "fs.read": {"path": "f"}, "agent.execute": {"command": "true"},
	} {
		if m := l.Call(op, payload); m.Code() != "session_ended" {
			t.Errorf("%s: %s", op, m.Line)
		}
	}
	close(release)
	if m := l.Response(first); !m.OK() {
		t.Errorf("what was under way: %s", m.Line)
	}
	if err := actortest.Within(t, "the end", l.served); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if l.live() != nil {
		t.Error("the session was not closed")
	}
}
