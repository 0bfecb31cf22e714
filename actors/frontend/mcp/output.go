package mcp

import (
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
	ends frontend.Ends
}

func newCapture(limit int) *capture { return &capture{half: limit / 2} }

// Write implements [io.Writer]; it never fails.
func (c *capture) Write(p []byte) (int, error) {
	c.ends.Add(p, c.half, c.half)
	return len(p), nil
}

// text returns what was kept, as valid UTF-8, how many bytes there were, and
// whether some are left out.
func (c *capture) text() (text string, total int64, truncated bool) { return c.ends.Text(c.half) }
