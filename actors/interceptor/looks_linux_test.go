package interceptor

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// left is a log in which a step was interrupted, and that counts who asks to take it up.
type left struct {
	*undolog.Log
	recoveries atomic.Int32
}

func (l *left) Recover(context.Context) (*undolog.Recovery, error) {
	l.recoveries.Add(1)
	return &undolog.Recovery{StepID: 7, Restored: 1}, nil
}

// A session that only looks takes nothing up, until something is written.
func TestU1LooksUntilAChange(t *testing.T) {
	l := &left{}
	r := newRig(t, files(2), func(o *Options) { l.Log, o.Log, o.Looks = o.Log.(*undolog.Log), l, true })
	if _, err := ask(r, func(p *messages.Reply[*undolog.GCResult]) any { return &GC{undolog.GCOptions{}, p} }); err != nil {
		t.Fatal(err)
	}
	_, _ = ask(r, func(p *messages.Reply[*undolog.ApplyResult]) any {
		return &Undo{undolog.UndoOptions{Count: 1, DryRun: true}, p}
	})
	if _, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Flush{p} }); err != nil {
		t.Fatal(err)
	}
	if n := l.recoveries.Load(); n != 0 {
		t.Fatalf("looked, and recovered %d times", n)
	}
	r.assign(1)
	r.must(r.fs.Unlink("f0"))
	if rec := actortest.Expect[*undolog.Recovery](r.events); rec.StepID != 7 {
		t.Fatalf("%+v", rec)
	}
	r.must(r.fs.Unlink("f1"))
	if n := l.recoveries.Load(); n != 1 {
		t.Fatalf("recovered %d times", n)
	}
	if e, err := r.closeStep(1); err != nil || e == nil || e.AffectedCount != 2 {
		t.Fatalf("%+v, %v", e, err)
	}
}
