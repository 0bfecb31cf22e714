package control

import (
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
)

// Idle ends a session that nobody is connected to. A nil Idle ends none. Methods
// are safe for concurrent use.
type Idle struct {
	clock api.Clock
	over  func()

	mu    sync.Mutex
	after time.Duration
	users int
	turn  int // counts timers: only the newest one counts
	stop  func() bool
}

// NewIdle calls over once after that time without a connection.
func NewIdle(clock api.Clock, after time.Duration, over func()) *Idle {
	i := &Idle{clock: clock, after: after, over: sync.OnceFunc(over)}
	i.rest()
	return i
}

// Busy begins a connection; what it returns ends it.
func (i *Idle) Busy() func() {
	if i == nil {
		return func() {}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users++
	i.halt()
	return func() {
		i.mu.Lock()
		i.users--
		i.mu.Unlock()
		i.rest()
	}
}

// Extend makes the time at least that long. It returns false if there is none.
func (i *Idle) Extend(to time.Duration) bool {
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.after = max(i.after, to)
	return true
}

// Stop ends the counting.
func (i *Idle) Stop() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users++
	i.halt()
}

// halt stops the timer. The caller has the lock.
func (i *Idle) halt() {
	i.turn++
	if i.stop != nil {
		i.stop()
		i.stop = nil
	}
}

// rest starts the timer if nobody is connected.
func (i *Idle) rest() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users > 0 {
		return
	}
	i.halt()
	turn := i.turn
	i.stop = i.clock.AfterFunc(i.after, func() {
		i.mu.Lock()
		now := i.turn == turn
		i.mu.Unlock()
		if now {
			i.over()
		}
	})
}
