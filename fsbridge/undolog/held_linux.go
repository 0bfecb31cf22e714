package undolog

import (
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// heldLinks counts the names that files have in the undo directory, of those
// that have, or had, more than one name. Nothing is counted before somebody asks.
// Everything is behind mu, a leaf lock: whoever adds or removes such a name does
// it with mu held, so that no count is older than what a stat shows.
type heldLinks struct {
	mu     sync.Mutex
	counts map[hostfs.ID]int // nil: not counted
	closed bool
}

// Held implements [fsbridge.LinkHolder].
func (l *Log) Held(id hostfs.ID) int {
	if id.Dev != l.dir.ID().Dev { // no link leads there
		return 0
	}
	h := &l.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil && !h.closed {
		h.counts = countLinks(l.dir.FD())
	}
	return h.counts[id]
}

// change runs f, which makes a name of id in the log (by is 1) or removes one
// (-1). Without h it only runs f.
func (h *heldLinks) change(id hostfs.ID, by int, f func() error) error {
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

// recount counts again after an apply, and calls f for each file of which the
// log has more or fewer names now.
func (h *heldLinks) recount(dirfd int, f func(hostfs.ID)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		return
	}
	was := h.counts
	h.counts = countLinks(dirfd)
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

// forget has everything counted when somebody asks next.
func (h *heldLinks) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = nil
}

func (h *heldLinks) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts, h.closed = nil, true
}

// countLinks counts the names below the directory behind dirfd of files that
// have several. What cannot be read is left out.
func countLinks(dirfd int) map[hostfs.ID]int {
	counts := map[hostfs.ID]int{}
	_ = hostfs.Walk(dirfd, maxCopyDepth, func(fd int, _ string, d *hostfs.Dirent) error {
		if st, err := hostfs.StatAt(fd, d.Name); err == nil && st.Nlink > 1 && !st.IsDir() {
			counts[st.ID]++
		}
		return nil
	})
	return counts
}
