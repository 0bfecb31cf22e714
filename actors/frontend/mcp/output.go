package mcp

import (
	"fmt"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
)

// keptOutput is how much of each stream a result holds, and maxKeptOutput how
// much a call may ask for.
const (
	keptOutput    = 32 << 10
	maxKeptOutput = 256 << 10
	// drainTime is how long output is awaited that a process left behind may
	// still write after its command has ended.
	drainTime = 100 * time.Millisecond
)

// capture keeps the beginning and the end of a stream. It is safe for
// concurrent use; memory is bounded by its limit.
type capture struct {
	half int

	mu    sync.Mutex
	head  []byte
	tail  []byte // at most 2*half: cut in halves now and then
	total int64
}

func newCapture(limit int) *capture { return &capture{half: limit / 2} }

// Write implements [io.Writer]; it never fails.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	if room := c.half - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.half {
		p = p[len(p)-c.half:]
	}
	if len(c.tail)+len(p) > 2*c.half {
		c.tail = append(c.tail[:0], c.tail[max(0, len(c.tail)-c.half):]...)
	}
	c.tail = append(c.tail, p...)
	return n, nil
}

// text returns what was kept, as valid UTF-8, how many bytes there were, and
// whether some are left out.
func (c *capture) text() (text string, total int64, truncated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.tail
	if len(tail) > c.half {
		tail = tail[len(tail)-c.half:]
	}
	left := c.total - int64(len(c.head)) - int64(len(tail))
	if left <= 0 {
		return frontend.Valid(string(c.head) + string(tail)), c.total, false
	}
	head := frontend.Whole(c.head)
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", frontend.Valid(string(head)), left, frontend.Valid(string(frontend.Rest(tail)))), c.total, true
}
