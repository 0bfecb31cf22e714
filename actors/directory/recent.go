package directory

import (
	"slices"
	"sync"
)

// mostRecent is how many warnings are remembered, of one folder and of a session.
const mostRecent = 256

// Recent remembers what came last, up to a bound. The zero Recent is empty. Its methods are safe for concurrent use.
type Recent[T any] struct {
	mu   sync.Mutex
	list []T
}

// Keep remembers v, and forgets the oldest if there are too many.
func (r *Recent[T]) Keep(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == mostRecent {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, v)
}

// All are those that are remembered, the newest last.
func (r *Recent[T]) All() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
