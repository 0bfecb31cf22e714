package apply

import (
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// parts count what an engine does, for [Env.Progress] only.
type parts struct {
	total int64
	kept  int64 // of them, by Keep
	done  atomic.Int64
}

// countParts is how many parts the plan has: what is copied before, moved away, made, given its
// name, and files that get their content back. What turns up while it is carried out is not counted.
func (e *Engine) countParts() (n int64) {
	if e.Progress == nil {
		return 0
	}
	n = e.parts.kept
	for _, d := range e.t.Order {
		if d.Wanted && d.Place.Kind == layer.Nowhere && e.t.Makeable(d) {
			n++
		}
		if d.Place.Kind != layer.Nowhere && !d.Created && d.Type == posix.S_IFREG && (d.Content || d.Dirty) {
			n++
		}
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if b.Wrong && b.Occ.Ino != 0 {
				n++
			}
			if b.Wrong {
				n++
			}
		}
	}
	return n
}

// partDone tells of one more part. It may be called from any goroutine.
func (e *Engine) partDone() {
	e.Sign.Mark()
	if e.Progress != nil && e.parts.total > 0 {
		e.Progress(min(e.parts.done.Add(1), e.parts.total), e.parts.total)
	}
}
