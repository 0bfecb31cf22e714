package vfs

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// sweepAt is how many granted files are looked at together at least.
const sweepAt = 512

// grantList has the granted files that may still be written to. The functions are set before
// the first Enter.
type grantList[N any] struct {
	// Open opens the file of a node, ESTALE if it cannot be found by a name.
	Open func(n N, flags int) (int, hostfs.Stat, error)
	// Linkable tells whether a file without a name can get one (O_TMPFILE).
	Linkable func(n N) bool
	// Enter and Leave tell that a node is in the list, and that it is not any more.
	Enter, Leave func(n N)

	sweeping sync.Mutex

	mu     sync.Mutex
	list   []*grant[N]
	next   int  // length at which it is swept
	behind bool // a sweep is on its way
}

// grantSlot is a node's place for its Grant: nil if nobody writes to it without asking.
type grantSlot[N any] struct{ p atomic.Pointer[grant[N]] }

// Load returns the Grant, or nil.
func (s *grantSlot[N]) Load() *grant[N] { return s.p.Load() }

// grant says that the client may be able to write to a file without asking.
type grant[N any] struct {
	Node N

	list *grantList[N]
	slot *grantSlot[N]

	// mu is held while the file is opened for the client, and while somebody looks
	// whether it is still open: no lease of ours is in the way of the one, and the
	// other misses nobody.
	mu      sync.Mutex
	opening int
	over    bool // nobody can write any more; the slot has another or none
	// readable: hold is open for reading.
	readable bool

	// hold has the file open, for reading or else O_PATH, if it may have lost its names,
	// or lose them unseen, or become unreadable.
	hold atomic.Pointer[openFile[N]]
}

// Begin says that n, whose slot s is, is about to be opened for the client. The caller calls
// Done when it is.
func (l *grantList[N]) Begin(n N, s *grantSlot[N]) *grant[N] {
	for {
		g := s.p.Load()
		if g == nil {
			g = &grant[N]{Node: n, list: l, slot: s}
			if !s.p.CompareAndSwap(nil, g) {
				continue
			}
			l.add(g)
		}
		g.mu.Lock()
		if !g.over {
			g.opening++
			g.mu.Unlock()
			return g
		}
		g.mu.Unlock()
	}
}

// Done says that the file was opened, or was not.
func (g *grant[N]) Done() {
	g.mu.Lock()
	g.opening--
	g.mu.Unlock()
}

func (l *grantList[N]) add(g *grant[N]) {
	l.Enter(g.Node)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, g)
	if len(l.list) >= max(l.next, sweepAt) && !l.behind {
		l.behind = true
		go func() {
			l.Sweep()
			l.mu.Lock()
			l.behind = false
			l.mu.Unlock()
		}()
	}
}

// Living tells whether somebody may still be able to write to the file. It is false for
// a nil Grant.
func (g *grant[N]) Living() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over:
		return false
	case g.opening > 0 || g.written():
		return true
	}
	g.over = true
	g.slot.p.CompareAndSwap(g, nil)
	g.drop()
	return false
}

func (g *grant[N]) drop() {
	g.readable = false
	if h := g.hold.Swap(nil); h != nil {
		h.Release()
	}
}

// written asks the host. A file that cannot be found has no name any more, and nobody
// can give it one. mu is held.
func (g *grant[N]) written() bool {
	fd, st, err := g.open()
	switch {
	case errors.Is(err, posix.ESTALE), errors.Is(err, posix.ENOENT):
		return false
	case err != nil:
		return true
	}
	defer hostfs.Close(fd)
	if st.Nlink == 0 && !g.list.Linkable(g.Node) {
		return false
	}
	written, _ := hostfs.Written(fd)
	return written
}

// open opens the file for reading, by the descriptor that holds it if there is one.
func (g *grant[N]) open() (fd int, st hostfs.Stat, err error) {
	h := g.hold.Load()
	if h == nil {
		return g.list.Open(g.Node, posix.O_RDONLY)
	}
	if fd, err = posix.Dup(h.FD); err == nil && !g.readable {
		_ = hostfs.Close(fd)
		fd, err = hostfs.ReopenFD(h.FD, posix.O_RDONLY|posix.O_NONBLOCK|posix.O_NOCTTY)
	}
	if err != nil {
		return -1, st, err
	}
	if st, err = hostfs.StatFD(fd); err != nil {
		_ = hostfs.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// Keep holds the file by a descriptor: it is about to lose its name, or its directory's
// or its own rights, or somebody who does not tell us may take these away.
func (g *grant[N]) Keep() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.hold.Load() != nil {
		return
	}
	fd, _, err := g.list.Open(g.Node, posix.O_RDONLY)
	if g.readable = err == nil; err != nil {
		fd, _, err = g.list.Open(g.Node, posix.O_PATH)
	}
	if err == nil {
		g.hold.Store(newOpenFiles(g.Node, fd, posix.O_PATH))
	}
}

// KeepUnreadable is Keep for a file that is open as fd and that its owner, who we are, may not
// read: the mode is changed for a moment, since a lease takes a descriptor for reading.
func (g *grant[N]) KeepUnreadable(fd int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.readable {
		return
	}
	r, err := hostfs.ReopenLent(fd, posix.O_RDONLY|posix.O_NONBLOCK, nil)
	if err != nil {
		return
	}
	g.readable = true
	if old := g.hold.Swap(newOpenFiles(g.Node, r, posix.O_PATH)); old != nil {
		old.Release()
	}
}

// Held returns the open file that Keep has made, with a reference, or nil.
func (g *grant[N]) Held() *openFile[N] {
	if g == nil {
		return nil
	}
	if h := g.hold.Load(); h != nil && h.Acquire() {
		return h
	}
	return nil
}

// Quietly calls f while no lease of ours on the file is in its way.
func (g *grant[N]) Quietly(f func() error) error {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	return f()
}

// Sweep forgets the files to which nobody can write any more, and returns the others. A
// descriptor of ours is kept of each of these.
func (l *grantList[N]) Sweep() (living []*grant[N]) {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	l.mu.Lock()
	all := l.list
	l.list = nil
	l.mu.Unlock()
	for _, g := range all {
		if g.Living() {
			g.Keep()
			living = append(living, g)
		} else {
			l.Leave(g.Node)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(living[:len(living):len(living)], l.list...)
	l.next = 2 * len(l.list)
	return living
}

// Room tells whether there are fewer than most files in the list, or in truth.
func (l *grantList[N]) Room(most int) bool {
	l.mu.Lock()
	n := len(l.list)
	l.mu.Unlock()
	return n < most || len(l.Sweep()) < most
}

// Close gives up what is held.
func (l *grantList[N]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.list {
		g.drop()
	}
	l.list = nil
}
