package posix

import "time"

// patience is how long something is tried again that another program is in the way of for a moment: a virus scanner or an indexer
// has a file open that was just written.
type patience struct {
	pauses []time.Duration
	sleep  func(time.Duration)
}

// aSecond is about a second of patience.
func aSecond() patience {
	p := patience{sleep: time.Sleep}
	for pause := time.Millisecond; pause <= 256*time.Millisecond; pause *= 2 {
		p.pauses = append(p.pauses, pause, pause)
	}
	return p
}

// try calls f until it succeeds, fails with an error for which again is false, or patience ends. It returns the last error.
func (p patience) try(f func() error, again func(error) bool) error {
	for _, pause := range p.pauses {
		if err := f(); err == nil || !again(err) {
			return err
		}
		p.sleep(pause)
	}
	return f()
}
