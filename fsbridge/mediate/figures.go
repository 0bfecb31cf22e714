package mediate

import (
	"sync/atomic"
	"time"
)

// figureCounter counts. Its zero value is ready.
type figureCounter struct {
	notifications, nanos, granted, traced, unwired, listening, foreign atomic.Uint64
}

// Answered counts a notification and how long it took.
func (c *figureCounter) Answered(d time.Duration) {
	c.notifications.Add(1)
	c.nanos.Add(uint64(d))
}

// Granted counts a descriptor that was handed over.
func (c *figureCounter) Granted() { c.granted.Add(1) }

// Traced counts a call that would trace another process, and was refused.
func (c *figureCounter) Traced() { c.traced.Add(1) }

// Unwired counts a socket of a network that there is not.
func (c *figureCounter) Unwired() { c.unwired.Add(1) }

// Listening counts a filter with a listener of its own, which there cannot be beside ours.
func (c *figureCounter) Listening() { c.listening.Add(1) }

// Foreign counts a call of a program for another processor.
func (c *figureCounter) Foreign() { c.foreign.Add(1) }

// figures are what was counted.
type figures struct {
	// Notifications are the system calls that were answered, Mean how long each took,
	// waiting for decisions included.
	Notifications uint64
	Mean          time.Duration
	// Granted are the descriptors that were handed over.
	Granted uint64
	// Traced are the calls to trace another process that were refused.
	Traced uint64
	// Unwired are the sockets that were refused because there is no network.
	Unwired uint64
	// Listening are the filters that were refused because the kernel allows one listener.
	Listening uint64
	// Foreign are the calls of programs of 32 bits that were refused.
	Foreign uint64
}

// figures returns what was counted.
func (c *figureCounter) Figures() figures {
	f := figures{
		Notifications: c.notifications.Load(), Granted: c.granted.Load(),
		Traced: c.traced.Load(), Unwired: c.unwired.Load(), Listening: c.listening.Load(), Foreign: c.foreign.Load(),
	}
	if f.Notifications > 0 {
		f.Mean = time.Duration(c.nanos.Load() / f.Notifications)
	}
	return f
}
