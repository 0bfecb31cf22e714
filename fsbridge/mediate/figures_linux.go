package mediate

import (
	"sync/atomic"
	"time"
)

// figures count what a server does.
type figures struct {
	notifications atomic.Uint64
	nanos         atomic.Uint64
	granted       atomic.Uint64
}

func (f *figures) add(d time.Duration) {
	f.notifications.Add(1)
	f.nanos.Add(uint64(d))
}

// Figures are what a [Server] has done since its start.
type Figures struct {
	// Notifications are the system calls that were answered, Mean how long each took,
	// waiting for decisions included.
	Notifications uint64
	Mean          time.Duration
	// Granted are the descriptors that were handed over.
	Granted uint64
}

// Figures returns what the server has done.
func (s *Server) Figures() Figures {
	f := Figures{Notifications: s.figures.notifications.Load(), Granted: s.figures.granted.Load()}
	if f.Notifications > 0 {
		f.Mean = time.Duration(s.figures.nanos.Load() / f.Notifications)
	}
	return f
}
