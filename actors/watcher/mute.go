package watcher

import (
	"slices"
	"sync"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	// muteFor is how long what happens to files beside a busy one is not heard.
	// Changes are collected for twice as long anyway, and a writer's own events
	// are all but gone: one in a thousand writes is heard.
	muteFor = debounce / 2
	// maxMuted is how many names a directory may have that is muted: each is looked
	// at twice.
	maxMuted = 64
	// muteAgain is how long a directory that cannot be muted is left alone.
	muteAgain = time.Second

	// busyFor is how long a name has to be heard of all the time until its directory is
	// busy, and busyGap how long it may be silent meanwhile. Until then each small write takes twice as long as it
	// does natively; to mute a directory that is not busy after all costs two looks at each of its names.
	busyFor = rest
	busyGap = 3 * rest
	// maxHeard is how many names are remembered for that. Whoever changes more does not change
	// each all the time.
	maxHeard = 64
)

// muter is a [Source] that can leave out for a while what happens to the files
// of a directory, but never what happens to names.
type muter interface {
	// Mute leaves it out in the directory dir (relative to the root), if it is the
	// inode id, until arm is called, which must be once. Then everything is heard
	// again, and what may have been left out is returned.
	Mute(dir string, id hostfs.ID) (arm func() Batch, err error)
}

// heard says since when a name has been heard of all the time, and when it was last.
type heard struct{ since, last time.Time }

// busy notes what was heard of in b, and returns what has been heard of all the time: the
// mediated bridge does not see the writes that it could call Busy for. While a directory is muted its
// names are silent, and are taken as heard of when it is armed. w.mu is held.
func (w *Watcher) busy(b *Batch) (all []Event) {
	if w.muted.src == nil {
		return nil
	}
	now := w.o.Clock.Now()
	for _, e := range b.Events {
		h, ok := w.heard[e]
		switch {
		case ok && !b.Since.IsZero():
			h.last = now
		case !b.Since.IsZero() || e.Name == "" || !ok && len(w.heard) >= maxHeard:
			continue
		case !ok || now.Sub(h.last) > busyGap:
			h = heard{now, now}
		default:
			h.last = now
		}
		w.heard[e] = h
		if b.Since.IsZero() && now.Sub(h.since) >= busyFor && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	for e, h := range w.heard {
		if now.Sub(h.last) > busyGap {
			delete(w.heard, e)
		}
	}
	return all
}

// muted are the directories that are muted, or cannot be.
type muted struct {
	src muter // nil: none can

	mu     sync.Mutex
	closed bool
	dirs   map[hostfs.ID]struct{}
	wg     sync.WaitGroup
}

// Busy says that the workload writes all the time to a file in the directory dir,
// given relative to the root, of the inode id. Each of these writes would be an
// event, which costs as much as a tenth of the write itself. It does not block.
func (w *Watcher) Busy(dir string, id hostfs.ID) {
	m := &w.muted
	if m.src == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.dirs[id]; ok || m.closed {
		return
	}
	m.dirs[id] = struct{}{}
	m.wg.Go(func() { w.mute(dir, id) })
}

// mute mutes a directory for a moment.
func (w *Watcher) mute(dir string, id hostfs.ID) {
	began, span := w.o.Clock.Now(), muteFor
	arm, err := w.muted.src.Mute(dir, id)
	if err != nil {
		w.o.Logger.Debug("busy directory not muted", "component", "file_watcher", "path", dir, "err", err)
		span = muteAgain
	}
	over, closed := make(chan struct{}), false
	stop := w.o.Clock.AfterFunc(span, func() { close(over) })
	select {
	case <-over:
	case <-w.stop:
		closed = true
		stop()
	}
	var b Batch
	if arm != nil {
		b = arm()
	}
	w.muted.mu.Lock()
	delete(w.muted.dirs, id)
	w.muted.mu.Unlock()
	if arm != nil && !closed {
		b.Since = began
		w.Report(b)
	}
}

// close waits until nothing is muted any more; the watcher's stop is closed.
func (m *muted) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.wg.Wait()
}
