package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/codeagent/sandbox/messages/logctx"
)

// maxHeavy is how many answers of unbounded size are made at once, until they
// are written.
const maxHeavy = 4

// request is a request in flight.
type request struct {
	s       *Server
	id      string
	op      *operation
	payload any
	ctx     context.Context
	cancel  context.CancelCauseFunc
	after   <-chan struct{} // lifecycle requests before it
	done    chan struct{}   // of a lifecycle request
	heavy   bool            // has a place among the heavy ones
	// entered is closed when a command has started, or will not; behind is the
	// one that was sent before it.
	entered   chan struct{}
	enterOnce sync.Once
	behind    *request
}

func (rq *request) handle() {
	defer rq.s.wg.Done()
	result, err := rq.perform()
	rq.enter()
	rq.behind = nil
	if rq.done != nil {
		close(rq.done)
	}
	rq.answer(ending(result), err)
}

// enter lets the next command have its turn in line.
func (rq *request) enter() {
	if rq.entered != nil {
		rq.enterOnce.Do(func() { close(rq.entered) })
	}
}

// logs writes a line about the request: the context carries its id, unless it is
// one of a batch.
func (rq *request) logs(level slog.Level, text string, attrs ...any) {
	if !rq.s.log.Enabled(rq.ctx, level) {
		return
	}
	ctx := rq.ctx
	if rq.op.flags&batched != 0 {
		ctx = logctx.With(ctx, logctx.Fields{RequestID: rq.id})
	}
	rq.s.log.Log(ctx, level, text, attrs...)
}

// perform carries the request out. A panic fails this request only.
func (rq *request) perform() (payload json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			rq.logs(slog.LevelError, "panic", "op", rq.op.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &Error{Code: Internal, Message: rq.op.name + ": an internal error; the log has more"}
		}
	}()
	if rq.op.flags&control == 0 {
		select {
		case <-rq.after:
		case <-rq.ctx.Done():
			return nil, context.Cause(rq.ctx)
		}
	}
	if rq.op.flags&heavy != 0 {
		select {
		case rq.s.heavy <- struct{}{}:
			rq.heavy = true
		case <-rq.ctx.Done():
			return nil, context.Cause(rq.ctx)
		}
	}
	result, err := rq.op.handle(rq.ctx, rq)
	if err != nil {
		return nil, err
	}
	return marshal(result)
}

// answer queues the response. The request keeps its place until that is
// written, but its id can be used again by whoever has read it.
// end is the end of the response, unless that is an error.
func (rq *request) answer(end []byte, err error) {
	s := rq.s
	it := outboxItem{Class: responseClass, Tail: end, Written: rq.leave}
	if err != nil {
		bad := toError(err)
		rq.logs(max(rq.op.level(), slog.LevelInfo), "response sent", "op", rq.op.name, "code", bad.Code, "err", err)
		it.Head, it.Tail = refusal(&rq.id, bad), nil
	} else {
		rq.logs(rq.op.level(), "response sent", "op", rq.op.name)
		it.Head = success(rq.id)
	}
	s.mu.Lock()
	delete(s.inflight, rq.id)
	s.mu.Unlock()
	rq.cancel(nil)
	_ = s.out.Put(s.ctx, it)
}

// leave gives the request's places back.
func (rq *request) leave() {
	rq.s.vacate(rq.op.kind(), 1)
	if rq.heavy {
		<-rq.s.heavy
	}
}

// marshal encodes without escaping <, > and &.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
