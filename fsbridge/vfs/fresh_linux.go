package vfs

import "time"

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
