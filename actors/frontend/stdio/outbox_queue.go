package stdio

import (
	"context"
	"errors"
	"io"
	"sync"
)

// outboxClass is a kind of message with a share of the queue of its own.
type outboxClass int

// The classes.
const (
	responseClass outboxClass = iota // answers a request that is in flight
	refusalClass                     // answers what is no request, or one too many
	eventClass
	outputClass // of a command
	classes
)

// room is how many bytes of a class may be queued. Responses are bounded by the
// number of requests in flight.
func (c outboxClass) room() int {
	switch c {
	case refusalClass:
		return 64 << 10
	case eventClass:
		return 1 << 20
	case outputClass:
		return 256 << 10
	}
	return 1 << 62
}

// maxWrite is how many bytes are written at once where messages are small.
const maxWrite = 64 << 10

// errOutboxClosed is returned for a message that comes after [queue.Close], or when the client is gone.
var errOutboxClosed = errors.New("stdio: the client is gone")

// queue is the way of all messages to the client. Methods are safe for
// concurrent use.
type queue struct {
	mu     sync.Mutex // everything below; never held while something waits
	items  []outboxItem
	spare  []outboxItem // empty: the next to become items
	used   [classes]int
	closed bool
	busy   bool          // a write is under way
	writes uint64        // that have ended
	bytes  int64         // written
	freed  chan struct{} // closed and replaced when room was made
	wake   chan struct{} // has one when there may be items
}

// outboxItem is a message, which ends with a newline, in two parts, of which several may share the
// second. Neither is changed once the item is in the queue.
type outboxItem struct {
	Class      outboxClass
	Head, Tail []byte
	// Written, which may be nil, is called when the message has been given to the client, or
	// when that will never be.
	Written func()
}

func (it *outboxItem) size() int { return len(it.Head) + len(it.Tail) }

// newQueue makes an empty queue.
func newQueue() *queue {
	return &queue{freed: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Put queues a message once its class has room. If it fails, because ctx ended or the queue is
// closed, Written has been called.
func (q *queue) Put(ctx context.Context, it outboxItem) error {
	c, size, written := it.Class, it.size(), it.Written
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			if written != nil {
				written()
			}
			return errOutboxClosed
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
func (q *queue) PutResponses(items []outboxItem) {
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
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Close refuses what comes from now on. The writer ends when it has written
// what is queued.
func (q *queue) Close() {
	q.mu.Lock()
	q.closed = true
	close(q.freed)
	q.freed = make(chan struct{})
	q.mu.Unlock()
	q.signal()
}

// Drained returns when everything that was put before is written or lost. The error is ctx's, or [errOutboxClosed].
func (q *queue) Drained(ctx context.Context) error {
	for {
		q.mu.Lock()
		used, freed, closed := q.used, q.freed, q.closed
		q.mu.Unlock()
		switch {
		case closed:
			return errOutboxClosed
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
func (q *queue) take() (batch []outboxItem, ok bool) {
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
func (q *queue) done(batch []outboxItem) {
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
func (q *queue) Run(w io.Writer) error {
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
func (q *queue) recycle(list []outboxItem) {
	if cap(list) > maxSpare {
		return
	}
	clear(list)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = list[:0]
}

func (q *queue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = true
}

func (q *queue) end(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	q.writes++
	q.bytes += int64(n)
}

// Sent is how many bytes were written.
func (q *queue) Sent() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// Progress is how many writes have ended.
func (q *queue) Progress() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writes
}

// Stuck tells whether a write is under way and none has ended since Progress was before.
func (q *queue) Stuck(before uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy && q.writes == before
}
