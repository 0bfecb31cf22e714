package ui

import (
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestRest: memory is given back once nobody has asked for anything for a while, and not while a request is answered.
func TestRest(t *testing.T) {
	clock := actortest.NewFakeClock()
	trimmed := make(chan struct{}, 8)
	m := rest{clock: clock, trim: func() { trimmed <- struct{}{} }}
	first, second := m.begin(), m.begin()
	first()
	clock.Advance(10 * restAfter)
	second()
	third := m.begin()
	clock.Advance(10 * restAfter)
	if len(trimmed) > 0 {
		t.Error("memory is given back while a request is answered")
	}
	third()
	clock.Advance(restAfter / 2)
	m.begin()()
	clock.Advance(restAfter / 2)
	if len(trimmed) > 0 {
		t.Error("memory is given back at once")
	}
	clock.Advance(restAfter / 2)
	<-trimmed
	if len(trimmed) > 0 {
		t.Error("memory is given back twice")
	}
}
