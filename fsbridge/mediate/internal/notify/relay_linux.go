package notify

import (
	"sync/atomic"
	"time"
)

// Relay decides whether a worker that finds somebody else waiting wakes another worker. That pays where a
// thread that is woken runs sooner than most calls are answered. Where it takes longer (another processor
// of a virtual machine may need 30 us and more), workers that wake each other answer fewer calls than one alone. The zero value is ready.
type Relay struct {
	left atomic.Int32 // so many notifications more one worker is enough
}

const (
	wokenSoon = 12 * time.Microsecond
	stayAlone = 1024 // notifications, until it is tried again
)

// Due tells, of each notification once, whether it may pay to wake another worker.
func (r *Relay) Due() bool { return r.left.Load() <= 0 || r.left.Add(-1) < 0 }

// Woken notes how long it took until a worker ran that was woken.
func (r *Relay) Woken(took time.Duration) {
	if took > wokenSoon {
		r.left.Store(stayAlone)
	}
}
