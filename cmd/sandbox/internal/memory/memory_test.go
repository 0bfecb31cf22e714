package memory_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/memory"
)

// The limit grows with what lives, so that the collector can free something, and is again what was asked for when that is gone.
func TestLimitFollowsWhatLives(t *testing.T) {
	const least, size = 32 << 20, 64 << 20
	before := debug.SetMemoryLimit(-1)
	memory.Limit(least)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	if got := debug.SetMemoryLimit(-1); got != least {
		t.Fatalf("the limit is %d at first, want %d", got, least)
	}
	kept := make([]byte, size)
	waitFor(t, "a limit of twice what lives", func(limit int64) bool { return limit >= 2*size })
	runtime.KeepAlive(kept)
	waitFor(t, "the limit that was asked for", func(limit int64) bool { return limit == least })
}

// waitFor collects until the limit is as it should be.
func waitFor(t *testing.T, what string, good func(limit int64) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !good(debug.SetMemoryLimit(-1)); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("there is not %s, but %d bytes", what, debug.SetMemoryLimit(-1))
		}
		runtime.GC()
	}
}
