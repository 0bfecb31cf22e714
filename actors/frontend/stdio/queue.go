package stdio

import (
	"context"
	"errors"
	"io"
	"sync"
)

// class is a kind of message with a share of the queue of its own.
type class int

const (
	classResponse class = iota
	classRefusal
	classEvent
	classOutput
	classes
)

// room is how many bytes of a class may be queued. Responses are bounded by the
// number of requests in flight.
func (c class) room() int {
	switch c {
	case classRefusal:
		return 64 << 10
	case classEvent:
		return 1 << 20
	case classOutput:
		return 256 << 10
	}
	return 1 << 62
}

// maxWrite is how many bytes are written at once where messages are small.
const maxWrite = 64 << 10

var errQueueClosed = errors.New("stdio: the client is gone")

// queue is the way of all messages to the client. Methods are safe for
// concurrent use.
type queue struct {
	mu     sync.Mutex // everything below; never held while something waits
	items  []item
	spare  []item // empty: the next to become items
	used   [classes]int
	closed bool
	busy   bool          // a write is under way
	writes uint64        // that have ended
	bytes  int64         // written
	freed  chan struct{} // closed and replaced when room was made
	wake   chan struct{} // has one when there may be items
}

// item is a message in two parts, of which several may share the second.
type item struct {
	class      class
	head, tail []byte
	written    func() // may be nil
}

func (it *item) size() int { return len(it.head) + len(it.tail) }

func newQueue() *queue {
	return &queue{freed: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// put queues a message, which ends with a newline, once its class has room.
// written is called when it has been given to the client, or when that will
// never be; also if put fails.
func (q *queue) put(ctx context.Context, c class, message []byte, written func()) error {
	return q.putItem(ctx, item{class: c, head: message, written: written})
}

func (q *queue) putItem(ctx context.Context, it item) error {
	c, size, written := it.class, it.size(), it.written
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			if written != nil {
				written()
			}
			return errQueueClosed
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

// putResponses queues responses, for which there always is room.
func (q *queue) putResponses(items []item) {
	q.mu.Lock()
	closed := q.closed
	if !closed {
		for i := range items {
			q.used[items[i].class] += items[i].size()
		}
		q.items = append(q.items, items...)
	}
	q.mu.Unlock()
	if closed {
		for _, it := range items {
			if it.written != nil {
				it.written()
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

// close refuses what comes from now on. The writer ends when it has written
// what is queued.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	close(q.freed)
	q.freed = make(chan struct{})
	q.mu.Unlock()
	q.signal()
}

// take waits for items. ok is false when the queue is closed and empty.
func (q *queue) take() (batch []item, ok bool) {
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
func (q *queue) done(batch []item) {
	q.mu.Lock()
	for _, it := range batch {
		q.used[it.class] -= it.size()
	}
	if !q.closed {
		close(q.freed)
		q.freed = make(chan struct{})
	}
	q.mu.Unlock()
	for _, it := range batch {
		if it.written != nil {
			it.written()
		}
	}
}

// run writes until the queue is closed and empty, or w fails; then it drops
// what is left and everything that comes.
func (q *queue) run(w io.Writer) error {
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
				buf = append(append(buf, batch[n].head...), batch[n].tail...)
				n++
			}
			if failed == nil {
				q.begin()
				var wrote int
				if wrote, failed = w.Write(buf); failed != nil {
					q.close()
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
func (q *queue) recycle(list []item) {
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

// sent counts bytes that were written.
func (q *queue) sent() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// progress counts writes that have ended.
func (q *queue) progress() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writes
}

// stuck reports whether a write is under way and none has ended since before.
func (q *queue) stuck(before uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy && q.writes == before
}
