package frontend

import (
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Transcript keeps the beginning and the end of what a command writes to stdout and stderr together, in the order in which it
// arrives. It is safe for concurrent use; its memory is bounded.
type Transcript struct{ ends Ends }

// Write implements [io.Writer]; it never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.ends.Add(p, undolog.OutputHead, undolog.OutputTail)
	return len(p), nil
}

// Keep gives what was written until now to the history of the step, if there is one, as the output of the command.
func (t *Transcript) Keep(live api.OutputKeeper, step undolog.StepID, argv []string, begin time.Time) {
	data, cut, total := t.ends.Kept(undolog.OutputTail)
	if step == 0 || total == 0 {
		return
	}
	o := undolog.CommandOutput{Command: api.ShellQuote(argv...), StartedAt: begin, Bytes: total, LeftOut: total - int64(len(data)), Data: data}
	if o.LeftOut > 0 {
		o.Cut = cut
	}
	live.KeepOutput(step, o)
}
