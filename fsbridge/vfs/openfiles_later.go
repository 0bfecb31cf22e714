package vfs

import (
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// laterFile has descriptors that are closed when an answer is out: the host frees what a
// removed file had when its last descriptor is closed, which takes longer than to
// remove its name, and nobody waits for it.
type laterFile struct {
	some atomic.Bool

	mu  sync.Mutex
	fds []int
}

// Add takes over a descriptor; a negative one is ignored.
func (l *laterFile) Add(fd int) {
	if fd < 0 {
		return
	}
	l.mu.Lock()
	l.fds = append(l.fds, fd)
	l.mu.Unlock()
	l.some.Store(true)
}

// Close closes all of them.
func (l *laterFile) Close() {
	if !l.some.Load() {
		return
	}
	l.some.Store(false)
	for {
		l.mu.Lock()
		last := len(l.fds) - 1
		if last < 0 {
			l.mu.Unlock()
			return
		}
		fd := l.fds[last]
		l.fds = l.fds[:last]
		l.mu.Unlock()
		_ = hostfs.Close(fd)
	}
}
