package fuseproto

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

// Pool is a set of workers. Methods are safe for concurrent use.
type Pool struct {
	mu    sync.Mutex
	all   map[*worker]struct{}
	ended bool // there is nothing to take any more

	active  atomic.Int32 // workers that have not been replaced; changed under mu
	limit   int32        // of active
	o       PoolOptions
	running sync.WaitGroup
	over    chan struct{} // closed when ended and active is 0

	watching atomic.Bool // the watch looks for requests that take long
	wake     chan struct{}
}

// Source is what one worker takes requests with. Its methods are called by one
// goroutine at a time, except Another, and wait for nothing unless they say so.
type Source interface {
	// Take takes a request and returns its number.
	Take() (request uint64, what PoolTaken)
	// Wait waits until there may be something to take.
	Wait()
	// Perform performs what was taken and answers it, which may take long.
	Perform()
	// Another returns a Source for another worker. instead says that it is to take
	// the place of this one, which is about to perform, or does.
	Another(instead bool) Source
	// Leave is the last call.
	Leave()
}

// PoolTaken is what came of [Source.Take].
type PoolTaken uint8

// The values of Taken.
const (
	PoolNothing PoolTaken = iota // Wait
	PoolRequest                  // Perform it
	PoolRelease                  // Perform it; it is a RELEASE: see [Pool.Releases]
	PoolAgain                    // there was one, which is gone
	PoolGone                     // nothing will ever come
)

// TakenRequest is what a [Source] has taken with a request of that opcode.
func TakenRequest(opcode uint32) PoolTaken {
	if opcode == OpRelease {
		return PoolRelease
	}
	return PoolRequest
}

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
// number of its own requests, twice, so that no two are the same.
const (
	stateReads    = 0
	stateReplaced = 1 // it still performs a request, but is not relied on any more
)

// worker performs one request at a time.
type worker struct {
	Source
	state atomic.Uint64
	// request is the number of the newest one.
	request atomic.Uint64
	// idle tells that it takes nothing until it has looked again, releases that the request which it performs is a RELEASE.
	idle, releases atomic.Bool
	taken          uint64 // twice how many

	run   int           // requests since there was none
	busy  time.Time     // when that became backlogRun
	way   time.Time     // when it last gave way
	spin  time.Duration // how long it is looked for the next request before waiting
	start time.Time     // since when it is; zero for not
}

// PoolOptions say how workers trade processor time for being quick.
type PoolOptions struct {
	// MaxSpin is for how long a worker looks for the next request, after a short
	// wait, before it waits again; 0 where the processor has better things to do.
	MaxSpin time.Duration
	// StallAfter is how often the watch looks. A request that it sees twice has its
	// worker replaced. Each look wakes a thread.
	StallAfter time.Duration
}

// NewPool returns an empty set.
func NewPool(o PoolOptions) *Pool {
	return &Pool{
		o:   o,
		all: make(map[*worker]struct{}), limit: int32(min(max(4, runtime.GOMAXPROCS(0)), maxActive)),
		over: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// Start starts the first one. It is called once.
func (p *Pool) Start(first Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(first)
	go p.watch()
}

// Over is closed when nothing is taken any more. Requests may still be performed.
func (p *Pool) Over() <-chan struct{} { return p.over }

// Wait returns when the last request was performed and the last Source left.
func (p *Pool) Wait() { p.running.Wait() }

// add starts a worker. p.mu is held.
func (p *Pool) add(h Source) {
	w := &worker{Source: h}
	p.all[w] = struct{}{}
	p.active.Add(1)
	p.running.Go(func() { p.serve(w) })
}

// leave ends a worker: at once if it has been replaced, else only in company.
func (p *Pool) leave(w *worker, replaced bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !replaced {
		if p.active.Load() < 2 && !p.ended {
			return false
		}
		p.retire()
	}
	delete(p.all, w)
	w.Leave()
	return true
}

// retire counts a worker that is not relied on any more, and tells whether it was
// the last. p.mu is held.
func (p *Pool) retire() (last bool) {
	last = p.active.Add(-1) == 0
	if last && p.ended {
		close(p.over)
	}
	return last
}

// replace sees to it that somebody takes requests while w performs the one of this
// state. Nothing happens if it is performed already. p.mu is held.
func (p *Pool) replace(w *worker, state uint64) {
	if !w.state.CompareAndSwap(state, stateReplaced) || !p.retire() || p.ended {
		return
	}
	p.add(w.Another(true))
}

// HeldUp says that a request waits for somebody's decision.
func (p *Pool) HeldUp(request uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.all {
		if state := w.state.Load(); state > stateReplaced && w.request.Load() == request {
			p.replace(w, state)
			return
		}
	}
}

// help adds a worker, as long as there are not many.
func (p *Pool) help(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && p.active.Load() < p.limit {
		p.add(w.Another(false))
	}
}

// end is called by every worker that finds that nothing will come. The others
// find it out themselves; those that perform a request are not waited for.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	for w := range p.all {
		if state := w.state.Load(); state > stateReplaced {
			p.replace(w, state)
		}
	}
}

// watch replaces workers whose requests take long.
func (p *Pool) watch() {
	for {
		select {
		case <-p.over:
			return
		case <-p.wake:
		}
		ticker := time.NewTicker(p.o.StallAfter)
		p.look(ticker.C)
		ticker.Stop()
	}
}

// look is the watch while there is something to do.
func (p *Pool) look(tick <-chan time.Time) {
	last := make(map[*worker]uint64)
	for quiet := 0; ; {
		select {
		case <-p.over:
			return
		case <-tick:
		}
		if p.stalled(last) {
			quiet = 0
		} else if quiet++; quiet > quietTicks {
			p.watching.Store(false)
			// Somebody may have begun just before, and not called.
			if !p.stalled(last) || p.watching.Swap(true) {
				return
			}
			quiet = 0
		}
	}
}

// stalled replaces the workers that are at the same request as the last time. It
// tells whether any is at one.
func (p *Pool) stalled(last map[*worker]uint64) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(last, func(w *worker, _ uint64) bool { _, ok := p.all[w]; return !ok })
	for _, w := range slices.Collect(maps.Keys(p.all)) { // to which replace adds
		state := w.state.Load()
		if state <= stateReplaced {
			delete(last, w)
			continue
		}
		any = true
		if last[w] == state {
			p.replace(w, state)
		}
		last[w] = state
	}
	return any
}

// Len returns how many workers there are.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// Performed returns the numbers of the requests that workers are at.
func (p *Pool) Performed() map[Source]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := make(map[Source]uint64)
	for w := range p.all {
		if w.state.Load() != stateReads {
			left[w.Source] = w.request.Load()
		}
	}
	return left
}

// Releases returns a function that tells whether each RELEASE is performed that was taken before the call. A kernel puts a
// RELEASE into its queue when the last descriptor is closed, and then asks nobody to wait for it; what is asked for after that
// comes after it, but is overtaken by nothing only as long as there is one worker. The function is for one goroutine. It may
// wait for later ones, too.
func (p *Pool) Releases() (performed func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []*worker
	for w := range p.all {
		if w.mayRelease() {
			left = append(left, w)
		}
	}
	return func() bool {
		if len(left) == 0 {
			return true
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		left = slices.DeleteFunc(left, func(w *worker) bool { _, there := p.all[w]; return !there || !w.mayRelease() })
		return len(left) == 0
	}
}

// mayRelease tells whether the worker is at a RELEASE, or has taken a request of which that is not known yet.
func (w *worker) mayRelease() bool {
	if w.state.Load() == stateReads { // looked at first: releases is set before it is another one
		return !w.idle.Load()
	}
	return w.releases.Load()
}

// serve takes and performs requests until the worker is not needed any more.
func (p *Pool) serve(w *worker) {
	for {
		request, what := w.Take()
		switch what {
		case PoolRequest, PoolRelease:
			if what == PoolRelease {
				w.releases.Store(true)
			}
			w.start = time.Time{}
			if w.backlog() {
				p.help(w)
			}
			if !p.perform(w, request) {
				p.leave(w, true)
				return
			}
		case PoolNothing:
			if p.active.Load() > 1 && p.leave(w, false) {
				return
			}
			w.run, w.busy = 0, time.Time{}
			if !w.spins() {
				w.waits(p.o.MaxSpin)
			}
		case PoolGone:
			p.end()
			p.leave(w, false)
			return
		}
	}
}

// perform performs what was taken. It tells whether the worker is still relied on.
func (p *Pool) perform(w *worker, request uint64) bool {
	w.taken += 2
	w.request.Store(request)
	w.state.Store(w.taken)
	if !p.watching.Load() && !p.watching.Swap(true) {
		p.wake <- struct{}{}
	}
	w.Perform()
	if w.releases.Load() {
		w.releases.Store(false)
	}
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
	w.idle.Store(true)
	w.Wait()
	w.idle.Store(false)
	switch waited := time.Since(before); {
	case waited > shortWait:
		w.spin = 0
	case w.spin == 0:
		w.spin = min(minSpin, maxSpin)
	default:
		w.spin = min(2*w.spin, maxSpin)
	}
}
