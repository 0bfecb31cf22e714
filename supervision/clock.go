package supervision

import "time"

// Clock is the time that actors see. Tests inject their own.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f after d, from another goroutine or from whoever advances
	// a fake clock; f must not block. stop reports whether it prevented the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// RealClock is the time of day.
type RealClock struct{}

// Now returns time.Now.
func (RealClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (RealClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// Timer is a restartable timer that belongs to one instance of an actor. Its
// methods are called from Receive only.
type Timer struct {
	clock Clock
	tell  func(any)
	gen   uint64
	stop  func() bool
}

// Tick is what a [Timer] sends to its actor.
type Tick struct {
	timer *Timer
	gen   uint64
}

// NewTimer makes a stopped timer that sends its ticks by tell.
func NewTimer(clock Clock, tell func(any)) *Timer { return &Timer{clock: clock, tell: tell} }

// Reset arms the timer to tick once after d. A tick that is already on its way
// becomes stale.
func (t *Timer) Reset(d time.Duration) {
	t.Stop()
	tick := &Tick{t, t.gen}
	t.stop = t.clock.AfterFunc(d, func() { t.tell(tick) })
}

// Stop disarms the timer and makes ticks on their way stale.
func (t *Timer) Stop() {
	if t == nil { // of an actor that crashed before it had one
		return
	}
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	t.gen++
}

// Armed reports whether a tick is due.
func (t *Timer) Armed() bool { return t.stop != nil }

// Fresh reports whether k is the tick that the timer was last armed for, and
// disarms it. Ticks of other timers and of earlier instances are not.
func (t *Timer) Fresh(k *Tick) bool {
	if k.timer != t || k.gen != t.gen || t.stop == nil {
		return false
	}
	t.stop = nil
	t.gen++
	return true
}
