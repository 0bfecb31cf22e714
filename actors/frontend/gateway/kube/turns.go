package kube

import (
	"context"
	"sync"
)

// turns lets those who would do something about one name do it one after the other. It keeps only the names about which somebody does something. The zero value is ready, and it is safe for concurrent use. turns.mu is held for moments.
type turns struct {
	mu    sync.Mutex
	names map[string]*turn
}

// turn is that of a name.
type turn struct {
	taken chan struct{} // has room for who has it
	users int           // who has it, and who waits for it
}

// take waits for the turn of a name, in the order in which they came, and returns with the cause of ctx when that ends first. done gives it back, and is called once.
func (t *turns) take(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	own := t.names[name]
	if own == nil {
		if t.names == nil {
			t.names = map[string]*turn{}
		}
		own = &turn{taken: make(chan struct{}, 1)}
		t.names[name] = own
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.taken <- struct{}{}:
		return func() { <-own.taken; t.leave(name, own) }, nil
	case <-ctx.Done():
		t.leave(name, own)
		return nil, context.Cause(ctx)
	}
}

// leave forgets a name that nobody uses any more.
func (t *turns) leave(name string, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.names, name)
	}
}
