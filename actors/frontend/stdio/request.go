package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/codeagent/sandbox/messages/logctx"
)

// maxHeavy is how many answers of unbounded size are made at once, until they
// are written.
const maxHeavy = 4

type flag uint8

const (
	// control: answered beside a full house, and does not wait for the lifecycle.
	control flag = 1 << iota
	// lifecycle: later requests wait for it.
	lifecycle
	// heavy: the answer may be large.
	heavy
	// cancels: agent.cancel may name it.
	cancels
	// runs: it runs a command, which ends when the client goes.
	runs
	// reads: changes nothing; logged at debug level.
	reads
	// batched: all that wait get one answer.
	batched
)

// operation is a kind of request.
type operation struct {
	name            string
	flags           flag
	request, result reflect.Type
	payload         func() any
	handle          func(ctx context.Context, rq *request) (any, error)
}

// kind says which places its requests take.
func (op *operation) kind() int {
	if op.flags&control != 0 {
		return 1
	}
	return 0
}

func (op *operation) level() slog.Level {
	if op.flags&reads != 0 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func newOp[P, R any](name string, flags flag, f func(ctx context.Context, rq *request, p *P) (R, error)) *operation {
	return &operation{
		name: name, flags: flags, request: reflect.TypeFor[P](), result: reflect.TypeFor[R](),
		payload: func() any { return new(P) },
		handle:  func(ctx context.Context, rq *request) (any, error) { return f(ctx, rq, rq.payload.(*P)) },
	}
}

// inSession is newOp for what needs a session.
func inSession[P, R any](name string, flags flag, f func(ctx context.Context, sess *session, p *P) (R, error)) *operation {
	return newOp(name, flags, func(ctx context.Context, rq *request, p *P) (R, error) {
		sess := rq.s.current()
		if sess == nil {
			var zero R
			return zero, &Error{Code: NoSession, Message: name + ": there is no session; send session.start first"}
		}
		sess.conn.Begin(rq.id, rq.cancel)
		defer sess.conn.End(rq.id)
		return f(ctx, sess, p)
	})
}

func operations() []*operation {
	return []*operation{
		newOp("hello", control|reads, hello),
		newOp(startOp, lifecycle|cancels, startSession),
		newOp("session.stop", lifecycle, stopSession),
		inSession("session.reset", lifecycle, resetSession),
		newOp[None, StatusResult]("session.status", control|reads|batched, nil),
		inSession("undo.rollback", 0, rollback),
		inSession("undo.redo", 0, redo),
		inSession("undo.mark", 0, mark),
		inSession("undo.restore", 0, restore),
		inSession("undo.history", heavy|reads, history),
		inSession("undo.show", heavy|reads, show),
		inSession("undo.diff", heavy|cancels|reads, diff),
		inSession("undo.configure", 0, configureUndo),
		newOp("undo.discard", 0, discard),
		newOp("agent.execute", cancels|runs, execute),
		newOp("agent.prompt", cancels|runs, prompt),
		newOp("agent.cancel", control, cancelRequests),
		inSession("service.start", cancels, startService),
		inSession("service.list", heavy|reads, listServices),
		inSession("service.output", heavy|reads, serviceOutput),
		inSession("service.stop", cancels, stopService),
		inSession("fs.list", heavy|cancels|reads, list),
		inSession("fs.read", heavy|cancels|reads, read),
		inSession("fs.status", reads, fsStatus),
		inSession("safeguard.configure", 0, configureSafeguards),
		inSession("safeguard.confirm", control, confirm),
		inSession("approval.decide", control, decide),
	}
}

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
