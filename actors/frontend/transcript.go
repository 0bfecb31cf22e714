package frontend

import (
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Transcript keeps the beginning and the end of what a command writes to stdout and stderr together, in the order in which it
// arrives. It is safe for concurrent use; its memory is bounded.
type Transcript struct {
	mu    sync.Mutex
	head  []byte
	tail  []byte // at most 2*undolog.OutputTail: cut in halves now and then
	total int64
}

// Write implements [io.Writer]; it never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.total += int64(n)
	if k := min(undolog.OutputHead-len(t.head), len(p)); k > 0 {
		t.head = append(t.head, p[:k]...)
		p = p[k:]
	}
	p = p[max(0, len(p)-undolog.OutputTail):]
	if len(t.tail)+len(p) > 2*undolog.OutputTail {
		t.tail = append(t.tail[:0], t.tail[max(0, len(t.tail)-undolog.OutputTail):]...)
	}
	t.tail = append(t.tail, p...)
	return n, nil
}

// Keep gives what was written until now to the history of the step, if there is one, as the output of the command.
func (t *Transcript) Keep(live api.OutputKeeper, step undolog.StepID, argv []string, begin time.Time) {
	t.mu.Lock()
	tail := t.tail[max(0, len(t.tail)-undolog.OutputTail):]
	o := undolog.CommandOutput{Command: api.ShellQuote(argv...), StartedAt: begin, Bytes: t.total}
	o.Data = append(append([]byte(nil), t.head...), tail...)
	if o.LeftOut = o.Bytes - int64(len(o.Data)); o.LeftOut > 0 {
		o.Cut = len(t.head)
	}
	t.mu.Unlock()
	if step != 0 && o.Bytes > 0 {
		live.KeepOutput(step, o)
	}
}
