package frontend

import (
	"fmt"
	"sync"
)

// Ends keeps the beginning and the end of what is written to it. Whoever uses it says how long they may be, always the
// same. It is safe for concurrent use; its memory is bounded by the two lengths.
type Ends struct {
	mu    sync.Mutex
	head  []byte
	tail  []byte // at most twice what is kept of it: cut in halves now and then
	total int64
}

// Add adds p. The first and the last so many bytes of all are kept.
func (e *Ends) Add(p []byte, first, last int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total += int64(len(p))
	if k := min(first-len(e.head), len(p)); k > 0 {
		e.head = append(e.head, p[:k]...)
		p = p[k:]
	}
	p = p[max(0, len(p)-last):]
	if len(e.tail)+len(p) > 2*last {
		e.tail = append(e.tail[:0], e.tail[max(0, len(e.tail)-last):]...)
	}
	e.tail = append(e.tail, p...)
}

// Kept returns a copy of what was kept, and how many bytes there were. If that is more, they are missing after the first cut bytes.
func (e *Ends) Kept(last int) (data []byte, cut int, total int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data = append(data, e.head...)
	return append(data, e.tail[max(0, len(e.tail)-last):]...), len(e.head), e.total
}

// Text is what was kept as valid UTF-8, with a line in the place of what is left out; total is how many bytes there were, and truncated says that some are left out.
func (e *Ends) Text(last int) (text string, total int64, truncated bool) {
	data, cut, total := e.Kept(last)
	left := total - int64(len(data))
	if left <= 0 {
		return Valid(string(data)), total, false
	}
	head, tail := Whole(data[:cut]), Rest(data[cut:])
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", Valid(string(head)), left, Valid(string(tail))), total, true
}
