package kube

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestTurns: one at a time for each name; who does not want to wait any more leaves, and nothing is kept of names that nobody uses.
func TestTurns(t *testing.T) {
	var all turns
	waiting := func(name string, want int) {
		t.Helper()
		actortest.Eventually(t, "those who wait", func() bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			return all.names[name] != nil && all.names[name].users == want
		})
	}
	done, err := all.take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := all.take(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()

	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := all.take(ctx, "a"); left <- err }()
	waiting("a", 2)
	cancel()
	if err := actortest.Within(t, "who has left", left); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	waiting("a", 1)

	var (
		group sync.WaitGroup
		order []int // of who has the turn
	)
	for n := range 20 {
		group.Go(func() {
			done, err := all.take(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			order = append(order, n)
		})
		waiting("a", n+2)
	}
	done()
	group.Wait()
	if len(order) != 20 || len(all.names) > 0 {
		t.Errorf("%v, %d names are kept", order, len(all.names))
	}
}
