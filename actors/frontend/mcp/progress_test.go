package mcp

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestOneProgressTimer: what a command writes while a notification is on its way goes with the next one, and there is one timer for that.
func TestOneProgressTimer(t *testing.T) {
	clock := actortest.NewFakeClock()
	var said []string
	var p *progress
	p = startProgress(clock, "token", func(_ context.Context, n *sdk.ProgressNotificationParams) error {
		said = append(said, n.Message)
		if _, err := p.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		return nil
	})
	for range 3 {
		next, _ := clock.Next()
		clock.Advance(next)
		if n := clock.Timers(); n != 1 {
			t.Errorf("%d timers", n)
		}
	}
	if len(said) != 3 || said[1] != "x" || said[2] != "x" {
		t.Errorf("said: %q", said)
	}
	p.stop()
	if n := clock.Timers(); n != 0 {
		t.Errorf("%d timers after the end", n)
	}
}
