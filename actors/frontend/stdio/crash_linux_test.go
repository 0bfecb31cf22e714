package stdio_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
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
