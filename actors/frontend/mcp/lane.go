package mcp

import (
	"context"
	"errors"
	"sync"
)

// errCrowded: too many calls wait for their turn.
var errCrowded = errors.New("too many calls are waiting for their turn: wait for results before you send more")

// lane lets one call at a time through, first come, first served. The zero
// value is free.
type lane struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{}
}

// enter returns when it is the caller's turn, which ends with leave. It fails
// with errCrowded, or with ctx.
func (l *lane) enter(ctx context.Context) error {
	l.mu.Lock()
	if !l.taken {
		l.taken = true
		l.mu.Unlock()
		return nil
	}
	if len(l.waiting) >= maxWaiting {
		l.mu.Unlock()
		return errCrowded
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			l.mu.Unlock()
			return ctx.Err()
		}
	}
	l.mu.Unlock()
	l.leave() // it was our turn just now
	return ctx.Err()
}

func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.taken = false
		return
	}
	close(l.waiting[0])
	l.waiting = l.waiting[1:]
}
