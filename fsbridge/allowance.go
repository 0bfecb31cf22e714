package fsbridge

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	// least is what a name counts at least, in bytes.
	least = 4096
	// shortest and longest bound the time between two counts, which is five times that of the last one.
	shortest, longest = 20 * time.Millisecond, 2 * time.Second
)

// Allowance is what the folders of a session may take more. A nil one has no limit.
type Allowance struct {
	o AllowanceOptions

	// In bytes: what the last count has found above the first one, what operations have taken at
	// most since then, and what those take that are being performed.
	found, done, pending atomic.Int64
	freed                atomic.Bool  // something was removed since the last count
	reached              atomic.Int64 // how often something was refused
	full                 atomic.Bool  // it was, since something was free
	closed               atomic.Bool
	shut                 chan struct{} // closed then: nobody waits any more
	adding               sync.WaitGroup

	mu      sync.Mutex // what follows; held during a count
	folders []*AllowanceFolder
	last    time.Time     // of the last count
	took    time.Duration // by it
	counts  atomic.Int64
}

// NewAllowance makes one without folders; nil if there is no limit.
func NewAllowance(o AllowanceOptions) *Allowance {
	if o.Limit <= 0 {
		return nil
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Allowance{o: o, shut: make(chan struct{})}
}

// Limit is how much larger the folders may become, and used how much larger they are, both in bytes. used is
// what the last count has found and what can have been written since, at most.
func (a *Allowance) Limit() (limit, used int64) {
	if a == nil {
		return 0, 0
	}
	return a.o.Limit, max(a.found.Load()+a.done.Load(), 0)
}

// Reached returns how often something was refused so far.
func (a *Allowance) Reached() int64 {
	if a == nil {
		return 0
	}
	return a.reached.Load()
}

// Close refuses what waits for a count, and returns when no root is used any more.
func (a *Allowance) Close() {
	if a != nil {
		if !a.closed.Swap(true) {
			close(a.shut)
		}
		a.adding.Wait()
		a.mu.Lock() // until a count has ended
		defer a.mu.Unlock()
		a.folders = nil
	}
}

// AllowanceFolder is one folder that is counted. A nil one is not.
type AllowanceFolder struct {
	a    *Allowance
	root *hostfs.Root
	path string
	log  string

	first int64         // bytes at the start; set when ready is closed
	ready chan struct{} // the first count is done
}

// Add adds a folder, and begins to count it. path is the folder's and log that of its undo directory, free of
// symlinks: a file that was removed and is still open may be written to there. The root stays the caller's, who closes
// it after [Allowance.Close] and all operations.
func (a *Allowance) Add(root *hostfs.Root, path, log string) *AllowanceFolder {
	if a == nil {
		return nil
	}
	f := &AllowanceFolder{a: a, root: root, path: path, log: log, ready: make(chan struct{})}
	a.adding.Add(1)
	go func() {
		defer a.adding.Done()
		defer close(f.ready)
		f.first = f.size(make(map[hostfs.ID]bool))
		a.mu.Lock()
		a.folders = append(a.folders, f)
		a.mu.Unlock()
	}()
	return f
}

// hooks is an Interceptor that knows names of files, as the log's does.
type hooks interface {
	Interceptor
	LinkHolder
}

// Guard returns an Interceptor that refuses, with [ErrAllowance], what the allowance has no room for. It asks next about the rest.
func (f *AllowanceFolder) Guard(next hooks) Interceptor {
	if f == nil {
		return next
	}
	return &guard{LinkHolder: next, next: next, f: f}
}

type guard struct {
	LinkHolder
	next Interceptor
	f    *AllowanceFolder
}

// Begin implements [Interceptor].
func (g *guard) Begin(op *Op) (Ticket, error) {
	cost, grows := costOf(op)
	if !grows {
		return g.next.Begin(op)
	}
	select {
	case <-g.f.ready:
	case <-g.f.a.shut:
		return Ticket{}, ErrAllowance
	}
	if !g.f.a.take(cost) {
		return Ticket{}, ErrAllowance
	}
	t, err := g.next.Begin(op)
	if err != nil {
		g.f.a.pending.Add(-cost)
	}
	return t, err
}

// End implements [Interceptor].
func (g *guard) End(t Ticket, op *Op, created *Object, err error) {
	a := g.f.a
	cost, grows := costOf(op)
	if grows { // also what has failed may have written a part
		a.done.Add(cost)
		a.pending.Add(-cost)
	}
	g.next.End(t, op, created, err)
	if removes(op) {
		a.freed.Store(true)
	}
}

// costOf returns how many bytes an operation takes at most, and whether it takes any.
func costOf(op *Op) (bytes int64, grows bool) {
	const frees = 0x02 | 0x08 // FALLOC_FL_PUNCH_HOLE, FALLOC_FL_COLLAPSE_RANGE
	switch {
	case op.Kind == OpWrite, op.Kind == OpCopyRange, op.Kind == OpFallocate && op.Flags&frees == 0:
		return max(op.Len, 0), true
	case op.Kind.Makes(), op.Kind == OpSetXattr:
		return least, true
	}
	return 0, false
}

// removes tells whether after an operation the folders may be smaller.
func removes(op *Op) bool {
	switch op.Kind {
	case OpUnlink, OpRmdir, OpTruncate, OpFallocate:
		return true
	case OpRename:
		return op.Victim != nil
	}
	return false
}

// take has n bytes ready to be written, or says that there is no room for them. It may wait for a count.
func (a *Allowance) take(n int64) bool {
	for {
		before := a.counts.Load()
		if a.fits(a.pending.Add(n)) {
			a.full.Store(false)
			return true
		}
		a.pending.Add(-n)
		if !a.again(before, n) {
			a.refuse()
			return false
		}
	}
}

// fits tells whether there is room when so much is being written.
func (a *Allowance) fits(pending int64) bool {
	return a.found.Load()+a.done.Load()+pending <= a.o.Limit
}

func (a *Allowance) refuse() {
	a.reached.Add(1)
	if !a.full.Swap(true) && a.o.Reached != nil {
		a.o.Reached()
	}
}

// again counts the folders if that may find room for n bytes which there was not before the count of that number. It is
// false if there is none for certain.
func (a *Allowance) again(before, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.counts.Load() == before {
		if a.closed.Load() {
			return false
		}
		age := a.o.Clock.Now().Sub(a.last)
		if wait := a.pause(); before > 0 && age < wait {
			if !a.freed.Load() && !a.fits(n-a.done.Load()) {
				return false // what was found is enough
			}
			a.wait(wait - age)
			continue
		}
		a.count()
		return a.fits(a.pending.Load() + n)
	}
	return true // somebody else has counted
}

// pause is how long the next count has to wait after the last one.
func (a *Allowance) pause() time.Duration { return min(max(5*a.took, shortest), longest) }

// wait lets others count, until [Allowance.Close] at most. mu is held.
func (a *Allowance) wait(d time.Duration) {
	over := make(chan struct{})
	stop := a.o.Clock.AfterFunc(d, func() { close(over) })
	a.mu.Unlock()
	select {
	case <-over:
	case <-a.shut:
		stop()
	}
	a.mu.Lock()
}

// count looks how large the folders are. mu is held. What is written meanwhile stays in done, and may be counted
// twice until the next count.
func (a *Allowance) count() {
	a.freed.Store(false)
	began, done := a.o.Clock.Now(), a.done.Load()
	var sum int64
	seen := make(map[hostfs.ID]bool) // files with several names, and with none
	for _, f := range a.folders {
		sum += f.size(seen) - f.first
	}
	sum += a.nameless(seen)
	a.found.Store(sum)
	a.done.Add(-done)
	a.last = a.o.Clock.Now()
	a.took = a.last.Sub(began)
	a.counts.Add(1)
}

// size returns how many bytes everything in the folder takes. Files with several names that are in seen are left out.
func (f *AllowanceFolder) size(seen map[hostfs.ID]bool) (sum int64) {
	err := f.root.Walk(func(_ []string, _ string, st *hostfs.Stat) bool {
		if !st.IsDir() && st.Nlink > 1 {
			if seen[st.ID] {
				return true
			}
			seen[st.ID] = true
		}
		sum += max(st.Blocks*512, least)
		return !f.a.closed.Load()
	})
	if err != nil {
		f.a.o.Logger.Warn("a folder could not be counted as a whole", "err", err)
	}
	return sum
}
