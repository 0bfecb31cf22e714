package control

import (
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A session goes after its idle time without connections, counted from the last
// one, and as long as somebody asks for.
func TestIdle(t *testing.T) {
	clock := actortest.NewFakeClock()
	over := make(chan struct{})
	i := NewIdle(clock, time.Minute, func() { close(over) })
	ended := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	clock.Advance(59 * time.Second)
	first, second := i.Busy(), i.Busy()
	clock.Advance(time.Hour)
	first()
	clock.Advance(time.Hour)
	if ended() {
		t.Fatal("it ended with a connection")
	}
	if !i.Extend(2*time.Minute) || !i.Extend(time.Second) {
		t.Error("not extended")
	}
	second()
	clock.Advance(119 * time.Second)
	if ended() {
		t.Fatal("it ended early")
	}
	clock.Advance(time.Second)
	actortest.Within(t, "the end", over)

	var none *Idle
	none.Busy()()
	none.Stop()
	if none.Extend(time.Hour) {
		t.Error("a session that ends by itself was extended")
	}
}

// A session that is closed is not ended once more.
func TestIdleStopped(t *testing.T) {
	clock := actortest.NewFakeClock()
	i := NewIdle(clock, time.Minute, func() { t.Error("ended") })
	busy := i.Busy()
	i.Stop()
	busy()
	clock.Advance(time.Hour)
	if n := clock.Timers(); n != 0 {
		t.Errorf("%d timers", n)
	}
}
