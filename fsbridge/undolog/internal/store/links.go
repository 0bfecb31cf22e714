package store

import (
	"maps"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Links counts the names that files have in the undo directory, of those
// that have, or had, more than one name. Nothing is counted before somebody asks.
// Everything is behind mu, a leaf lock: whoever adds or removes such a name does
// it with mu held, so that no count is older than what a stat shows.
type Links struct {
	dir *hostfs.Root // the undo directory

	mu     sync.Mutex
	counts map[hostfs.ID]int // nil: not counted
	closed bool
}

// Names tells how many names of the inode id are in the undo directory. An inode
// that has one name only may count as 0.
func (h *Links) Names(id hostfs.ID) int {
	if id.Dev != h.dir.ID().Dev { // no link leads there
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil && !h.closed {
		h.counts = countLinks(h.dir.FD())
	}
	return h.counts[id]
}

// NewLinks counts in the undo directory dir, which stays the caller's.
func NewLinks(dir *hostfs.Root) *Links { return &Links{dir: dir} }

// Change runs f, which makes a name of id in the log (by is 1) or removes one
// (-1). Without h it only runs f.
func (h *Links) Change(id hostfs.ID, by int, f func() error) error {
	if h == nil {
		return f()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := f()
	if err != nil || h.counts == nil {
		return err
	}
	if h.counts[id] += by; h.counts[id] <= 0 {
		delete(h.counts, id)
	}
	return nil
}

// Recount counts again after an apply, and calls f for each file of which the
// log has more or fewer names now.
func (h *Links) Recount(f func(hostfs.ID)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		return
	}
	was := h.counts
	h.counts = countLinks(h.dir.FD())
	for id, n := range h.counts {
		if was[id] != n {
			f(id)
		}
		delete(was, id)
	}
	for id := range was {
		f(id)
	}
}

// Forget has everything counted when somebody asks next.
func (h *Links) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = nil
}

// Audit returns what is counted (nil: nothing is yet) beside a new count, for
// tests.
func (h *Links) Audit() (counted, now map[hostfs.ID]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counts), countLinks(h.dir.FD())
}

// Close ends the counting: every inode counts as 0.
func (h *Links) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts, h.closed = nil, true
}

// countLinks counts the names below the directory behind dirfd of files that
// have several. What cannot be read is left out.
func countLinks(dirfd int) map[hostfs.ID]int {
	counts := map[hostfs.ID]int{}
	_ = hostfs.Walk(dirfd, maxDepth, func(fd int, _ string, d *hostfs.Dirent) error {
		if st, err := hostfs.StatAt(fd, d.Name); err == nil && st.Nlink > 1 && !st.IsDir() {
			counts[st.ID]++
		}
		return nil
	})
	return counts
}
