package fuse

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Workers take requests from a transport and perform them, each one at a time.
//
// One worker takes and performs, so that a request wakes nobody but that one, and
// that one is where the last request ran. A second one, ready to take the next
// request meanwhile, costs more than most requests do. The worker gets company in
// three cases: somebody has to decide about its request (HeldUp), its request takes
// longer than stallAfter, or there was always a next request for backlogAfter. Who
// has been replaced, or finds nothing to do in company, ends.
type Workers struct {
	mu    sync.Mutex
	all   map[*worker]struct{}
	ended bool // there is nothing to take any more

	active  atomic.Int32 // workers that have not been replaced; changed under mu
	limit   int32        // of active
	o       WorkerOptions
	running sync.WaitGroup
	over    chan struct{} // closed when ended and active is 0

	watching atomic.Bool // the watch looks for requests that take long
	wake     chan struct{}
}

// Hand is what one worker takes requests with. Its methods are called by one
// goroutine at a time, except Another, and wait for nothing unless they say so.
type Hand interface {
	// Take takes a request and returns its number.
	Take() (request uint64, what Taken)
	// Wait waits until there may be something to take.
	Wait()
	// Perform performs what was taken and answers it, which may take long.
	Perform()
	// Another returns a Hand for another worker. instead says that it is to take
	// the place of this one, which is about to perform, or does.
	Another(instead bool) Hand
	// Leave is the last call.
	Leave()
}

// Taken is what came of [Hand.Take].
type Taken uint8

// The values of Taken.
const (
	Nothing Taken = iota // Wait
	Request              // Perform it
	Again                // there was one, which is gone
	Gone                 // nothing will ever come
)

const (
	// quietTicks is how often the watch looks in vain before it sleeps.
	quietTicks = 10
	// backlogAfter is much longer than one caller, who waits for replies, can keep
	// a worker busy with what he does not wait for (RELEASE, FORGET).
	backlogAfter = 250 * time.Microsecond
	// backlogRun is how many requests must have come without a pause before the
	// clock is looked at.
	backlogRun = 8
	// A wait of up to shortWait, which includes the time that it takes to be woken,
	// makes a worker look for minSpin or longer before it waits again.
	shortWait = 200 * time.Microsecond
	minSpin   = 15 * time.Microsecond
	// A goroutine that has done nothing but system calls for 10 ms loses its processor
	// to Go's monitor, which then looks every 20 us, for milliseconds, whether there is
	// another. With one short request after the other that took half as much processor
	// time as they did. So a worker gives way before that.
	wayAfter = 8 * time.Millisecond
	// maxActive bounds the workers that share a backlog.
	maxActive = 16
)

// The states of a worker. Every other one is that it performs a request: the
// how-manieth of its own, twice, so that no two are the same.
const (
	stateReads    = 0
	stateReplaced = 1 // it still performs a request, but is not relied on any more
)

// worker performs one request at a time.
type worker struct {
	Hand
	state atomic.Uint64
	// request is the number of the newest one.
	request atomic.Uint64
	taken   uint64 // twice how many

	run   int           // requests since there was none
	busy  time.Time     // when that became backlogRun
	way   time.Time     // when it last gave way
	spin  time.Duration // how long it is looked for the next request before waiting
	start time.Time     // since when it is; zero for not
}

// WorkerOptions say how workers trade processor time for being quick.
type WorkerOptions struct {
	// MaxSpin is for how long a worker looks for the next request, after a short
	// wait, before it waits again; 0 where the processor has better things to do.
	MaxSpin time.Duration
	// StallAfter is how often the watch looks. A request that it sees twice has its
	// worker replaced. Each look wakes a thread.
	StallAfter time.Duration
}

// NewWorkers returns an empty set.
func NewWorkers(o WorkerOptions) *Workers {
	return &Workers{
		o:   o,
		all: make(map[*worker]struct{}), limit: int32(min(max(4, runtime.GOMAXPROCS(0)), maxActive)),
		over: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// Start starts the first one. It is called once.
func (d *Workers) Start(first Hand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(first)
	go d.watch()
}

// Over is closed when nothing is taken any more. Requests may still be performed.
func (d *Workers) Over() <-chan struct{} { return d.over }

// Wait returns when the last request was performed and the last Hand left.
func (d *Workers) Wait() { d.running.Wait() }

// add starts a worker. d.mu is held.
func (d *Workers) add(h Hand) {
	w := &worker{Hand: h}
	d.all[w] = struct{}{}
	d.active.Add(1)
	d.running.Go(func() { d.serve(w) })
}

// leave ends a worker: at once if it has been replaced, else only in company.
func (d *Workers) leave(w *worker, replaced bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !replaced {
		if d.active.Load() < 2 && !d.ended {
			return false
		}
		d.retire()
	}
	delete(d.all, w)
	w.Leave()
	return true
}

// retire counts a worker that is not relied on any more, and tells whether it was
// the last. d.mu is held.
func (d *Workers) retire() (last bool) {
	last = d.active.Add(-1) == 0
	if last && d.ended {
		close(d.over)
	}
	return last
}

// replace sees to it that somebody takes requests while w performs the one of this
// state. Nothing happens if it is performed already. d.mu is held.
func (d *Workers) replace(w *worker, state uint64) {
	if !w.state.CompareAndSwap(state, stateReplaced) || !d.retire() || d.ended {
		return
	}
	d.add(w.Another(true))
}

// HeldUp says that a request waits for somebody's decision.
func (d *Workers) HeldUp(request uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.all {
		if state := w.state.Load(); state > stateReplaced && w.request.Load() == request {
			d.replace(w, state)
			return
		}
	}
}

// help adds a worker, as long as there are not many.
func (d *Workers) help(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && d.active.Load() < d.limit {
		d.add(w.Another(false))
	}
}

// end is called by every worker that finds that nothing will come. The others
// find it out themselves; those that perform a request are not waited for.
func (d *Workers) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	d.ended = true
	for w := range d.all {
		if state := w.state.Load(); state > stateReplaced {
			d.replace(w, state)
		}
	}
}

// watch replaces workers whose requests take long.
func (d *Workers) watch() {
	for {
		select {
		case <-d.over:
			return
		case <-d.wake:
		}
		ticker := time.NewTicker(d.o.StallAfter)
		d.look(ticker.C)
		ticker.Stop()
	}
}

// look is the watch while there is something to do.
func (d *Workers) look(tick <-chan time.Time) {
	last := make(map[*worker]uint64)
	for quiet := 0; ; {
		select {
		case <-d.over:
			return
		case <-tick:
		}
		if d.stalled(last) {
			quiet = 0
		} else if quiet++; quiet > quietTicks {
			d.watching.Store(false)
			// Somebody may have begun just before, and not called.
			if !d.stalled(last) || d.watching.Swap(true) {
				return
			}
			quiet = 0
		}
	}
}

// stalled replaces the workers that are at the same request as the last time. It
// tells whether any is at one.
func (d *Workers) stalled(last map[*worker]uint64) (any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(last, func(w *worker, _ uint64) bool { _, ok := d.all[w]; return !ok })
	for _, w := range slices.Collect(maps.Keys(d.all)) { // to which replace adds
		state := w.state.Load()
		if state <= stateReplaced {
			delete(last, w)
			continue
		}
		any = true
		if last[w] == state {
			d.replace(w, state)
		}
		last[w] = state
	}
	return any
}

// performed returns the numbers of the requests that workers are at.
func (d *Workers) performed() map[*worker]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := make(map[*worker]uint64)
	for w := range d.all {
		if w.state.Load() != stateReads {
			left[w] = w.request.Load()
		}
	}
	return left
}

// serve takes and performs requests until the worker is not needed any more.
func (d *Workers) serve(w *worker) {
	for {
		request, what := w.Take()
		switch what {
		case Request:
			w.start = time.Time{}
			if w.backlog() {
				d.help(w)
			}
			if !d.perform(w, request) {
				d.leave(w, true)
				return
			}
		case Nothing:
			if d.active.Load() > 1 && d.leave(w, false) {
				return
			}
			w.run, w.busy = 0, time.Time{}
			if !w.spins() {
				w.waits(d.o.MaxSpin)
			}
		case Gone:
			d.end()
			d.leave(w, false)
			return
		}
	}
}

// perform performs what was taken. It tells whether the worker is still relied on.
func (d *Workers) perform(w *worker, request uint64) bool {
	w.taken += 2
	w.request.Store(request)
	w.state.Store(w.taken)
	if !d.watching.Load() && !d.watching.Swap(true) {
		d.wake <- struct{}{}
	}
	w.Perform()
	return w.state.CompareAndSwap(w.taken, stateReads)
}

// backlog tells, from time to time, that there is too much to do for one.
func (w *worker) backlog() bool {
	if w.run++; w.run < backlogRun {
		return false
	}
	now := time.Now()
	switch {
	case w.busy.IsZero():
		w.busy = now
	case now.Sub(w.busy) > backlogAfter:
		w.busy = now
		return true
	}
	return false
}

// spins tells whether to look again at once. Whoever waits has to be woken, and
// that can take longer than the next request does to come, above all in a virtual
// machine. So a worker looks for a while before it waits, and gives way to others
// meanwhile. How long adapts itself as in KVM's halt polling: longer when the last
// wait was short, not at all when it was long.
func (w *worker) spins() bool {
	if w.spin == 0 {
		return false
	}
	now := time.Now()
	if w.start.IsZero() {
		w.start = now
	} else if now.Sub(w.start) > w.spin {
		w.start = time.Time{}
		return false
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return true
}

// waits waits for a request.
func (w *worker) waits(maxSpin time.Duration) {
	before := time.Now()
	if before.Sub(w.way) > wayAfter {
		w.way = before
		runtime.Gosched()
	}
	w.Wait()
	switch waited := time.Since(before); {
	case waited > shortWait:
		w.spin = 0
	case w.spin == 0:
		w.spin = min(minSpin, maxSpin)
	default:
		w.spin = min(2*w.spin, maxSpin)
	}
}
