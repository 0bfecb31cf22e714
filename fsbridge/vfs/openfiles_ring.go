package vfs

import "sync"

// ringLength is how many a Ring remembers.
const ringLength = 64

// openRing remembers the last few that were added. It is safe for concurrent use.
type openRing[N any] struct {
	mu   sync.Mutex
	last [ringLength]N
	next int
}

// Add adds n and returns which it pushes out: the zero value if there is room.
func (r *openRing[N]) Add(n N) (old N) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old = r.last[r.next]
	r.last[r.next] = n
	r.next = (r.next + 1) % ringLength
	return old
}

// All returns what it remembers, with zero values where there is room.
func (r *openRing[N]) All() [ringLength]N {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
