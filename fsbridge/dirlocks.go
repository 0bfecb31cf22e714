package fsbridge

import (
	"cmp"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// DirLocks keep operations that change the names of one directory apart, from the first
// look at a name until the end is reported. A kernel does so for its own file systems, and
// captures rely on it: of two renames to one name the second would destroy a file that neither
// of them has captured. All that changes names in a folder shares the locks of that
// folder: its bridge, and what writes beside it. They come before the [Guard] in the
// order of locks. The zero value is ready, methods are safe for concurrent use.
type DirLocks struct {
	mu   sync.Mutex
	dirs map[hostfs.ID]*dirLock // of those that somebody has or waits for
	free []*dirLock
}

type dirLock struct {
	held  chan struct{} // has an element while somebody has the lock
	users int           // who has it and who waits; DirLocks.mu guards it
}

// maxLocked is how many directories one operation may have: those of a rename and the
// directory that it replaces.
const maxLocked = 3

// LockedDirs are the directories that an operation has locked. The zero value has none.
// It belongs to one goroutine at a time.
type LockedDirs struct {
	all   *DirLocks
	dirs  [maxLocked]hostfs.ID
	locks [maxLocked]*dirLock
	n     int
	// paused: none is locked at the moment.
	paused bool
}

// Lock locks at most three directories for h, instead of what h has; one may be named
// twice. When cancel is closed while it waits, it returns EINTR and h has none.
func (l *DirLocks) Lock(h *LockedDirs, cancel <-chan struct{}, dirs ...hostfs.ID) error {
	h.Unlock()
	h.all, h.n = l, copy(h.dirs[:], dirs)
	set := h.dirs[:h.n]
	slices.SortFunc(set, func(a, b hostfs.ID) int { // one order for all: nobody waits in a circle
		return cmp.Or(cmp.Compare(a.Dev, b.Dev), cmp.Compare(a.Ino, b.Ino))
	})
	h.n, h.paused = len(slices.Compact(set)), true
	return h.Resume(cancel)
}

// Pause gives back what h has until Resume. Nothing that was looked at holds afterwards.
// It does nothing if h is nil or has nothing.
func (h *LockedDirs) Pause() {
	if h == nil || h.paused {
		return
	}
	for i := range h.n {
		h.give(i)
	}
	h.paused = true
}

// Resume locks again what Pause has given back; its error is as that of Lock.
func (h *LockedDirs) Resume(cancel <-chan struct{}) error {
	if h == nil || !h.paused {
		return nil
	}
	h.paused = false
	for i := range h.n {
		d := h.all.use(h.dirs[i])
		h.locks[i] = d
		select {
		case d.held <- struct{}{}:
			continue
		default:
		}
		select {
		case d.held <- struct{}{}:
		case <-cancel:
			h.all.leave(h.dirs[i], d)
			h.n = i
			h.Unlock()
			return posix.EINTR
		}
	}
	return nil
}

// Has tells whether h has the directory.
func (h *LockedDirs) Has(id hostfs.ID) bool { return slices.Contains(h.dirs[:h.n], id) }

// Unlock gives back what h has, for good.
func (h *LockedDirs) Unlock() {
	h.Pause()
	h.n, h.paused = 0, false
}

func (h *LockedDirs) give(i int) {
	<-h.locks[i].held
	h.all.leave(h.dirs[i], h.locks[i])
	h.locks[i] = nil
}

func (l *DirLocks) use(id hostfs.ID) *dirLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.dirs[id]
	if d == nil {
		if n := len(l.free); n > 0 {
			d, l.free = l.free[n-1], l.free[:n-1]
		} else {
			d = &dirLock{held: make(chan struct{}, 1)}
		}
		if l.dirs == nil {
			l.dirs = map[hostfs.ID]*dirLock{}
		}
		l.dirs[id] = d
	}
	d.users++
	return d
}

// maxFree is how many locks are kept for the next directories.
const maxFree = 16

func (l *DirLocks) leave(id hostfs.ID, d *dirLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	delete(l.dirs, id)
	if len(l.free) < maxFree {
		l.free = append(l.free, d)
	}
}
