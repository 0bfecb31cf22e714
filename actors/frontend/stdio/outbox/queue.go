package outbox

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Class is a kind of message with a share of the queue of its own.
type Class int

// The classes.
const (
	Response Class = iota // answers a request that is in flight
	Refusal               // answers what is no request, or one too many
	Event
	Output // of a command
	classes
)

// room is how many bytes of a class may be queued. Responses are bounded by the
// number of requests in flight.
func (c Class) room() int {
	switch c {
	case Refusal:
		return 64 << 10
	case Event:
		return 1 << 20
	case Output:
		return 256 << 10
	}
	return 1 << 62
}

// maxWrite is how many bytes are written at once where messages are small.
const maxWrite = 64 << 10

// ErrClosed is returned for a message that comes after [Queue.Close], or when the client is gone.
var ErrClosed = errors.New("stdio: the client is gone")

// Queue is the way of all messages to the client. Methods are safe for
// concurrent use.
type Queue struct {
	mu     sync.Mutex // everything below; never held while something waits
	items  []Item
	spare  []Item // empty: the next to become items
	used   [classes]int
	closed bool
	busy   bool          // a write is under way
	writes uint64        // that have ended
	bytes  int64         // written
	freed  chan struct{} // closed and replaced when room was made
	wake   chan struct{} // has one when there may be items
}

// Item is a message, which ends with a newline, in two parts, of which several may share the
// second. Neither is changed once the item is in the queue.
type Item struct {
	Class      Class
	Head, Tail []byte
	// Written, which may be nil, is called when the message has been given to the client, or
	// when that will never be.
	Written func()
}

func (it *Item) size() int { return len(it.Head) + len(it.Tail) }

// New makes an empty queue.
func New() *Queue {
	return &Queue{freed: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Put queues a message once its class has room. If it fails, because ctx ended or the queue is
// closed, Written has been called.
func (q *Queue) Put(ctx context.Context, it Item) error {
	c, size, written := it.Class, it.size(), it.Written
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			if written != nil {
				written()
			}
			return ErrClosed
		}
		if q.used[c] == 0 || q.used[c]+size <= c.room() {
			q.used[c] += size
			q.items = append(q.items, it)
			q.mu.Unlock()
			q.signal()
			return nil
		}
		freed := q.freed
		q.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			if written != nil {
				written()
			}
			return context.Cause(ctx)
		}
	}
}

// PutResponses queues responses, for which there always is room.
func (q *Queue) PutResponses(items []Item) {
	q.mu.Lock()
	closed := q.closed
	if !closed {
		for i := range items {
			q.used[items[i].Class] += items[i].size()
		}
		q.items = append(q.items, items...)
	}
	q.mu.Unlock()
	if closed {
		for _, it := range items {
			if it.Written != nil {
				it.Written()
			}
		}
		return
	}
	q.signal()
}

// signal wakes the writer.
func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Close refuses what comes from now on. The writer ends when it has written
// what is queued.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	close(q.freed)
	q.freed = make(chan struct{})
	q.mu.Unlock()
	q.signal()
}

// Drained returns when everything that was put before is written or lost. The error is ctx's, or [ErrClosed].
func (q *Queue) Drained(ctx context.Context) error {
	for {
		q.mu.Lock()
		used, freed, closed := q.used, q.freed, q.closed
		q.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case used == [classes]int{}:
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take waits for items. ok is false when the queue is closed and empty.
func (q *Queue) take() (batch []Item, ok bool) {
	for {
		q.mu.Lock()
		batch = q.items
		if len(batch) > 0 {
			q.items, q.spare = q.spare, nil
		}
		closed := q.closed
		q.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch, len(batch) > 0
		}
		<-q.wake
	}
}

// done gives the room of written (or lost) items back.
func (q *Queue) done(batch []Item) {
	q.mu.Lock()
	for _, it := range batch {
		q.used[it.Class] -= it.size()
	}
	if !q.closed {
		close(q.freed)
		q.freed = make(chan struct{})
	}
	q.mu.Unlock()
	for _, it := range batch {
		if it.Written != nil {
			it.Written()
		}
	}
}

// Run writes to w until the queue is closed and empty, or w fails; then it drops
// what is left and everything that comes.
func (q *Queue) Run(w io.Writer) error {
	var failed error
	buf := make([]byte, 0, maxWrite)
	for {
		batch, ok := q.take()
		if !ok {
			return failed
		}
		for whole := batch; len(batch) > 0; {
			n := 0
			buf = buf[:0]
			for n < len(batch) && (n == 0 || len(buf)+batch[n].size() <= maxWrite) {
				buf = append(append(buf, batch[n].Head...), batch[n].Tail...)
				n++
			}
			if failed == nil {
				q.begin()
				var wrote int
				if wrote, failed = w.Write(buf); failed != nil {
					q.Close()
				}
				q.end(wrote)
			}
			q.done(batch[:n])
			if batch = batch[n:]; len(batch) == 0 {
				q.recycle(whole)
			}
			if cap(buf) > 4*maxWrite {
				buf = make([]byte, 0, maxWrite)
			}
		}
	}
}

// maxSpare is how many items a list may have room for that is kept.
const maxSpare = 1024

// recycle takes a list back whose items are done, so that not each becomes
// garbage: collecting that is what the slowest answers wait for.
func (q *Queue) recycle(list []Item) {
	if cap(list) > maxSpare {
		return
	}
	clear(list)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = list[:0]
}

func (q *Queue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = true
}

func (q *Queue) end(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	q.writes++
	q.bytes += int64(n)
}

// Sent is how many bytes were written.
func (q *Queue) Sent() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// Progress is how many writes have ended.
func (q *Queue) Progress() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writes
}

// Stuck tells whether a write is under way and none has ended since Progress was before.
func (q *Queue) Stuck(before uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy && q.writes == before
}
