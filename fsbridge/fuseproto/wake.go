package fuseproto

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// TouchWaker has the guest set the modification times of files to mtime, nanoseconds since 1970, by their
// paths relative to the folder, and returns when it has.
type TouchWaker func(ctx context.Context, mtime int64, paths []string) error

const (
	// mostPaths bounds what is touched in one go. Of more edits at a time, as of a checkout, the
	// newest are not told: who watches a tree looks at all of it then.
	mostPaths = 1024
	// mostBytes bounds their length together: they are one message to the guest.
	mostBytes = 128 << 10
	// patience bounds how long the others wait for one go: it blocks while the bridge holds a call for one
	// of its files. What it still touches later is harmless.
	patience = 10 * time.Second
)

// Waker wakes who watches files. A nil one does nothing. Its methods are safe for concurrent use.
type Waker struct {
	touch  TouchWaker
	time   int64
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup // the run

	mu      sync.Mutex
	waiting []string
	size    int             // of what is waiting, in bytes
	known   map[string]bool // what is waiting
	running bool
}

// NewWaker makes a waker. A nil touch means that there is nobody to ask.
func NewWaker(touch TouchWaker) *Waker {
	if touch == nil {
		return nil
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	const least = 1 << 61       // the year 2043: no time that a file has by accident
	w := &Waker{touch: touch, time: least | int64(binary.NativeEndian.Uint64(random[:])%least), known: make(map[string]bool)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Time returns the modification time, in nanoseconds since 1970, that the bridge must not set; 0 if nobody is asked
// for it.
func (w *Waker) Time() int64 {
	if w == nil {
		return 0
	}
	return w.time
}

// Wake has files touched soon. It waits for nobody.
func (w *Waker) Wake(paths []string) {
	if w == nil || len(paths) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range paths {
		if len(w.waiting) < mostPaths && w.size+len(p) <= mostBytes && !w.known[p] {
			w.waiting, w.known[p], w.size = append(w.waiting, p), true, w.size+len(p)
		}
	}
	if !w.running && w.ctx.Err() == nil {
		w.running = true
		w.ended.Go(w.run)
	}
}

// Close ends what is under way, and waits until it has ended.
func (w *Waker) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.cancel() // locked: nothing begins any more
	w.mu.Unlock()
	w.ended.Wait()
}

// take returns what is waiting; none ends the run.
func (w *Waker) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths := w.waiting
	w.waiting, w.size = nil, 0
	clear(w.known)
	w.running = len(paths) > 0 && w.ctx.Err() == nil
	if !w.running {
		return nil
	}
	return paths
}

func (w *Waker) run() {
	for paths := w.take(); paths != nil; paths = w.take() {
		w.tell(paths)
	}
}

// tell has files touched. That nobody was told is no error of anybody's: the guest may be ending, or
// hold a file up.
func (w *Waker) tell(paths []string) {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	_ = w.touch(ctx, w.time, paths) // see above
}
