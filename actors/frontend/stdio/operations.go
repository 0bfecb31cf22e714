package stdio

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/codeagent/sandbox/actors/api"
)

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
		return within(rq, func(sess *session) (R, error) { return f(ctx, sess, p) })
	})
}

// within does what needs a session.
func within[R any](rq *request, f func(*session) (R, error)) (R, error) {
	sess := rq.s.current()
	if sess == nil {
		var zero R
		return zero, &Error{Code: NoSession, Message: rq.op.name + ": there is no session; send session.start first"}
	}
	sess.conn.Begin(rq.id, rq.cancel)
	defer sess.conn.End(rq.id)
	return f(sess)
}

// form is an [api.Operation] whose request or result looks otherwise here.
func form[P, R any](name string, f func(ctx context.Context, sess *session, p *P) (R, error)) *operation {
	return inSession(name, 0, f)
}

// passed is an [api.Operation] as it is.
func passed(o api.Operation) *operation {
	op := &operation{
		name: o.STDIO, request: o.Request, result: o.Result, payload: o.New,
		handle: func(ctx context.Context, rq *request) (any, error) {
			return within(rq, func(sess *session) (any, error) { return o.Do(ctx, sess.live, rq.payload, nil) })
		},
	}
	if o.Member != "" {
		op.result, op.handle = memberOf(o, op.handle)
	}
	return op
}

// memberOf makes the result of an operation the only member of an object.
func memberOf(o api.Operation, handle func(context.Context, *request) (any, error)) (reflect.Type, func(context.Context, *request) (any, error)) {
	tag := fmt.Sprintf("json:%q", o.Member)
	if o.Says != "" {
		tag += fmt.Sprintf(" jsonschema:%q", o.Says)
	}
	object := reflect.StructOf([]reflect.StructField{{Name: "Result", Type: o.Result, Tag: reflect.StructTag(tag)}})
	return object, func(ctx context.Context, rq *request) (any, error) {
		result, err := handle(ctx, rq)
		if err != nil {
			return nil, err
		}
		v := reflect.New(object).Elem()
		if r := reflect.ValueOf(result); r.Kind() != reflect.Slice || !r.IsNil() {
			v.Field(0).Set(r)
		} else {
			v.Field(0).Set(reflect.MakeSlice(o.Result, 0, 0))
		}
		return v.Interface(), nil
	}
}

// flagsOf are what an operation's traits are here.
func flagsOf(t api.Traits) (f flag) {
	for trait, is := range map[api.Traits]flag{api.Reads: reads, api.Large: heavy, api.Stops: cancels, api.Decides: control} {
		if t&trait != 0 {
			f |= is
		}
	}
	return f
}

// operations are those of the session, and those of the conversation and of the commands in it.
func operations() []*operation {
	all := []*operation{
		newOp("hello", control|reads, hello),
		newOp(startOp, lifecycle|cancels, startSession),
		newOp("session.stop", lifecycle, stopSession),
		inSession("session.reset", lifecycle, resetSession),
		newOp[api.None, StatusResult]("session.status", control|reads|batched, nil),
		newOp("agent.execute", cancels|runs, execute),
		newOp("agent.prompt", cancels|runs, prompt),
		newOp("agent.cancel", control, cancelRequests),
		newOp("undo.discard", 0, discard),
		inSession("undo.configure", 0, configureUndo),
		inSession("fs.status", reads, fsStatus),
		inSession("safeguard.configure", 0, configureSafeguards),
		inSession("safeguard.confirm", control, confirm),
	}
	forms := map[string]*operation{}
	for _, op := range []*operation{
		form("undo.rollback", rollback),
		form("undo.redo", redo),
		form("undo.restore", restore),
		form("undo.history", history),
		form("undo.show", show),
		form("undo.diff", diff),
		form("service.start", startService),
		form("service.output", serviceOutput),
		form("fs.list", list),
		form("fs.read", read),
		form("approval.decide", decide),
	} {
		forms[op.name] = op
	}
	for _, o := range api.Operations() {
		op := forms[o.STDIO]
		switch {
		case o.STDIO == "":
			continue
		case op == nil:
			op = passed(o)
		}
		op.flags = flagsOf(o.Traits)
		all = append(all, op)
	}
	return all
}
