package actortest

import (
	"slices"
	"sync"
	"time"
)

// FakeClock is a clock that stands still until [FakeClock.Advance].
type FakeClock struct {
	mu     sync.Mutex
	cond   *sync.Cond
	now    time.Time
	timers []*fakeTimer
	serial int
}

type fakeTimer struct {
	at     time.Time
	serial int
	f      func()
}

// NewFakeClock starts at a fixed moment.
func NewFakeClock() *FakeClock {
	c := &FakeClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	c.cond = sync.NewCond(&c.mu)
	return c
}

// Now returns the fake time.
func (c *FakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc arms a timer that Advance fires.
func (c *FakeClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	t := &fakeTimer{c.now.Add(d), c.serial, f}
	c.timers = append(c.timers, t)
	c.cond.Broadcast()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.timers, t)
		if i < 0 {
			return false
		}
		c.timers = slices.Delete(c.timers, i, i+1)
		return true
	}
}

// Advance moves the time and fires what became due, in order, on the caller's
// goroutine.
func (c *FakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		var next *fakeTimer
		for _, t := range c.timers {
			if !t.at.After(end) && (next == nil || t.at.Before(next.at) || t.at.Equal(next.at) && t.serial < next.serial) {
				next = t
			}
		}
		if next == nil {
			break
		}
		c.timers = slices.DeleteFunc(c.timers, func(t *fakeTimer) bool { return t == next })
		if next.at.After(c.now) {
			c.now = next.at
		}
		c.mu.Unlock()
		next.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

// Timers returns how many timers are armed.
func (c *FakeClock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Next returns how long it is until the next timer is due; ok is false where none is armed.
func (c *FakeClock) Next() (d time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers {
		if until := max(t.at.Sub(c.now), 0); !ok || until < d {
			d, ok = until, true
		}
	}
	return d, ok
}

// WaitArmed blocks until a timer is armed that is due within d from now. It
// panics when none is for five minutes of real time.
func (c *FakeClock) WaitArmed(d time.Duration) {
	expired := false
	stop := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		expired = true
		c.cond.Broadcast()
	})
	defer stop.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !slices.ContainsFunc(c.timers, func(t *fakeTimer) bool { return !t.at.After(c.now.Add(d)) }) {
		if expired {
			panic("actortest: no timer was armed")
		}
		c.cond.Wait()
	}
}
