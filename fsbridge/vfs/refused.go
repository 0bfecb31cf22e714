package vfs

import (
	"maps"
	"path"
	"sync"
)

// mostRefusedPaths bounds how many hidden paths are counted: a program that moves a directory around gives what is in it new ones.
const mostRefusedPaths = 64

// refusedPaths counts, by path, how often somebody asked for what is hidden. The zero value is ready. Methods are safe for concurrent use and do not block; mu is a leaf.
type refusedPaths struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (r *refusedPaths) note(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = make(map[string]uint64)
	}
	if _, ok := r.n[path]; ok || len(r.n) < mostRefusedPaths {
		r.n[path]++
	}
}

// Refused returns how often the workload asked for something hidden, and was refused, by path relative to the root. A path that cannot be told any more is left out.
func (t *Tree) Refused() map[string]uint64 {
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	return maps.Clone(t.refused.n)
}

// noteRefused counts a request for name in the directory.
func (t *Tree) noteRefused(dir *node, name string) {
	if p, ok := dir.path(); ok {
		t.refused.note(path.Join(p, name))
	}
}
