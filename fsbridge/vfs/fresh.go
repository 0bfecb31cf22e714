package vfs

import (
	"sync"
	"time"
)

// freshList has the things that are new. Span and End are set before the first Add.
type freshList[N any] struct {
	Span time.Duration
	End  func(N) // is called when a thing is not new any more

	ending sync.Mutex

	mu     sync.Mutex
	things []thing[N]
	timer  *time.Timer // nil: not running
	closed bool
}

type thing[N any] struct {
	thing N
	until time.Time
}

// Add calls mark and has the thing be new for Span, unless the List is closed.
func (l *freshList[N]) Add(n N, mark func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	mark()
	l.things = append(l.things, thing[N]{n, time.Now().Add(l.Span)})
	if l.timer == nil {
		l.timer = time.AfterFunc(l.Span, l.age)
	}
}

// age ends what has been new for long enough.
func (l *freshList[N]) age() {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.mu.Lock()
	now := time.Now()
	n := 0
	for n < len(l.things) && !l.things[n].until.After(now) {
		n++
	}
	old := l.things[:n]
	l.things, l.timer = l.things[n:], nil
	if len(l.things) == 0 {
		l.things = nil
	} else {
		l.timer = time.AfterFunc(l.things[0].until.Sub(now), l.age)
	}
	l.mu.Unlock()
	l.end(old)
}

// Settle ends all of them now, and returns when that is done.
func (l *freshList[N]) Settle() {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.mu.Lock()
	all := l.things
	l.things = nil
	l.mu.Unlock()
	l.end(all)
}

func (l *freshList[N]) end(things []thing[N]) {
	for _, t := range things {
		l.End(t.thing)
	}
}

// Close forgets all of them.
func (l *freshList[N]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.things = true, nil
	if l.timer != nil {
		l.timer.Stop()
	}
}

// freshTTL is how long the client keeps what it learns in a fresh directory: an edit
// from outside may show that much later.
const freshTTL = 50 * time.Millisecond

// refresh makes dir, which the workload has just made and which the kernel does not
// know yet, a fresh one. What happens there is the workload's own work, and a watcher would
// hear of each step of it: that takes the host's kernel, and the watcher, as long as
// much of the work itself. So nobody watches such a directory yet, and the kernel
// keeps only for [freshTTL] what it learns there. Both end after Options.WatchAfter
// or with the step, whichever is first.
func (t *Tree) refresh(dir *node) {
	if t.timely && t.opts.OnList != nil && t.ttl >= freshTTL {
		t.fresh.Add(dir, func() { dir.flags.Or(flagFresh) })
	}
}

// unfresh ends that.
func (t *Tree) unfresh(dir *node) {
	dir.flags.And(^flagFresh)
	if dir.linked() {
		t.announce(dir)
	}
}

// Settle has all directories watched that were made a moment ago, so that edits from
// outside that come after it are announced.
func (t *Tree) Settle() { t.fresh.Settle() }
