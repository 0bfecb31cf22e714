package remote

import (
	"context"
	"sync"
	"time"
)

// Life is how a guest ends: by itself, which is an error, or because it is stopped. It
// implements two methods of hypervisor.Guest. Its methods may be called at any time.
type Life struct {
	done chan struct{}

	mu       sync.Mutex
	stopping bool
	err      error
}

// NewLife returns the life of a guest that is about to be born.
func NewLife() Life { return Life{done: make(chan struct{})} }

// Done is closed when the guest, and everything inside, is gone.
func (l *Life) Done() <-chan struct{} { return l.done }

// Err returns why the guest ended by itself; nil while it lives, and if it was stopped.
func (l *Life) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Ended is called once, when the guest is gone. Where nobody stopped it, obituary says why.
func (l *Life) Ended(obituary func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopping {
		l.err = obituary()
	}
	close(l.done)
}

// Stop ends the guest: ask asks it to, and if it is not gone after grace, kill kills it. A nil
// ask stands for a guest that cannot hear. It returns when the guest is gone, or ctx's error.
func (l *Life) Stop(ctx context.Context, grace time.Duration, ask, kill func()) error {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	if ask != nil {
		ask()
		patience, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		select {
		case <-l.done:
			return nil
		case <-patience.Done():
		}
	}
	kill()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
