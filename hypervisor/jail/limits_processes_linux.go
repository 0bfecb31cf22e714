package jail

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// lookEvery is how often the number of processes is looked at while a command runs.
const lookEvery = time.Second

// processes notices that the limit of processes is used up. The kernel tells nobody that
// it has refused one for RLIMIT_NPROC, and a control group, which counts that, makes the start of
// a jail slower. So they are counted now and then, and when a command ends: a fork bomb stays.
type processes struct {
	count func() int // the jail's processes and threads

	mu       sync.Mutex
	commands int // that run
	stop     chan struct{}
	closed   bool
	full     int // how often it was seen to be used up
}

// Follow says how the jail's processes and threads are counted.
func (k *limitKeeper) Follow(count func() int) {
	if k.l.PIDs > 0 {
		k.pids.count = count
	}
}

// wasFull is how often it was seen that the limit of processes was used up.
func (k *limitKeeper) wasFull() int {
	k.pids.mu.Lock()
	defer k.pids.mu.Unlock()
	return k.pids.full
}

// lookedFull is wasFull after another look.
func (k *limitKeeper) lookedFull() int {
	if p := &k.pids; p.count != nil && running() >= k.l.PIDs {
		// Those that were refused one may have ended by now.
		if p.count() >= k.l.PIDs-k.l.PIDs/64-4 {
			p.mu.Lock()
			p.full++
			p.mu.Unlock()
		}
	}
	return k.wasFull()
}

// running is how many threads the whole machine has: to read that costs next to nothing, and
// mostly it is less than the limit.
func running() int {
	text, err := os.ReadFile("/proc/loadavg")
	var load [3]float64
	var now, all int
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%g %g %g %d/%d", &load[0], &load[1], &load[2], &now, &all)
	}
	if err != nil {
		return 0
	}
	return all
}

// look looks from time to time until every command has called end.
func (k *limitKeeper) look() (end func()) {
	p := &k.pids
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil || p.closed {
		return func() {}
	}
	if p.commands++; p.commands == 1 {
		p.stop = make(chan struct{})
		go k.looks(p.stop)
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.commands--; p.commands == 0 && !p.closed {
			close(p.stop)
		}
	})
}

func (k *limitKeeper) looks(stop <-chan struct{}) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			k.lookedFull()
		}
	}
}

func (p *processes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commands > 0 && !p.closed {
		close(p.stop)
	}
	p.closed = true
}
