package vfs

import (
	"strings"
	"sync"
	"sync/atomic"
)

// maxNames bounds the names. When there are more, all are forgotten.
const maxNames = 4096

type name struct {
	dir  uint64
	name string
}

// removalSet has names of directories. Its zero value is empty, and its methods are safe for
// concurrent use.
type removalSet struct {
	n     atomic.Int64 // len(names)
	mu    sync.Mutex
	names map[name]struct{}
}

// Add says that the client has removed the name.
func (s *removalSet) Add(dir uint64, removed string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil || len(s.names) >= maxNames {
		s.names = make(map[name]struct{})
	}
	s.names[name{dir, strings.Clone(removed)}] = struct{}{}
	s.n.Store(int64(len(s.names)))
}

// Take tells whether the name is in the Set, and takes it out.
func (s *removalSet) Take(dir uint64, removed string) bool {
	if s.n.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.names[name{dir, removed}]
	delete(s.names, name{dir, removed})
	s.n.Store(int64(len(s.names)))
	return ok
}
