package vfs

import (
	"sync"
	"time"
)

// freshTTL is how long the client keeps what it learns in a fresh directory: an edit
// from outside may show that much later.
const freshTTL = 50 * time.Millisecond

// fresh has the directories that the workload has just made. What happens there is
// its own work, and a watcher would hear of each step of it: that takes the host's
// kernel, and the watcher, as long as much of the work itself. So nobody watches
// such a directory yet, and the kernel keeps only for [freshTTL] what it learns
// there. Both end after Options.WatchAfter or with the step, whichever is first.
type fresh struct {
	// can: the client forgets what it was told when the reply says; set before the
	// first request.
	can bool

	ending sync.Mutex // while some are made what they were: before mu

	mu     sync.Mutex
	span   time.Duration // Options.WatchAfter
	dirs   []freshDir
	timer  *time.Timer // nil: not running
	closed bool
}

type freshDir struct {
	dir   *node
	until time.Time
}

// refresh makes dir, which the workload has just made and which the kernel does not
// know yet, a fresh one.
func (t *Tree) refresh(dir *node) {
	f := &t.fresh
	if !f.can || t.opts.OnList == nil || t.ttl < freshTTL {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	dir.flags.Or(flagFresh)
	f.dirs = append(f.dirs, freshDir{dir, time.Now().Add(f.span)})
	if f.timer == nil {
		f.timer = time.AfterFunc(f.span, t.age)
	}
}

// age ends what has been fresh for long enough.
func (t *Tree) age() {
	f := &t.fresh
	f.ending.Lock()
	defer f.ending.Unlock()
	f.mu.Lock()
	now := time.Now()
	n := 0
	for n < len(f.dirs) && !f.dirs[n].until.After(now) {
		n++
	}
	old := f.dirs[:n]
	f.dirs, f.timer = f.dirs[n:], nil
	if len(f.dirs) == 0 {
		f.dirs = nil
	} else {
		f.timer = time.AfterFunc(f.dirs[0].until.Sub(now), t.age)
	}
	f.mu.Unlock()
	t.unfresh(old)
}

// Settle has all directories watched that were made a moment ago, so that edits from
// outside that come after it are announced.
func (t *Tree) Settle() {
	f := &t.fresh
	f.ending.Lock()
	defer f.ending.Unlock()
	f.mu.Lock()
	all := f.dirs
	f.dirs = nil
	f.mu.Unlock()
	t.unfresh(all)
}

func (t *Tree) unfresh(dirs []freshDir) {
	for _, d := range dirs {
		d.dir.flags.And(^flagFresh)
		if d.dir.linked() {
			t.announce(d.dir)
		}
	}
}

func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.dirs = true, nil
	if f.timer != nil {
		f.timer.Stop()
	}
}
