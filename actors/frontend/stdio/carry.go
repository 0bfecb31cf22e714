package stdio

import (
	"context"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// carried are the requests that other frontends pass on.
var carried = [...]string{"undo.rollback", "undo.redo", "undo.restore", "undo.history", "undo.show", "undo.diff", "undo.mark"}

// Carry carries out a request about a session's history for another frontend, which is called from: the payload (a JSON object; nil: an empty one) and the result are those of STDIO, for one of
// undo.rollback, undo.redo, undo.restore, undo.history, undo.show, undo.diff and undo.mark. The error is complete: it has its code, and the data that belongs to that.
func Carry(ctx context.Context, live api.Live, from, name string, payload []byte) (any, *Error) {
	v, err := carry(ctx, live, from, name, payload)
	if err != nil {
		e := toError(err)
		e.Message = frontend.Told(e.Message)
		return nil, e
	}
	return v, nil
}

func carry(ctx context.Context, live api.Live, from, name string, payload []byte) (any, error) {
	ops := operations()
	i := slices.IndexFunc(ops, func(op *operation) bool { return op.name == name })
	if i < 0 || !slices.Contains(carried[:], name) {
		return nil, &Error{Code: UnknownOperation, Message: fmt.Sprintf("%q cannot be asked for here", name)}
	}
	if payload != nil {
		if err := frontend.CheckJSON(payload); err != nil {
			return nil, &Error{Code: InvalidJSON, Message: err.Error()}
		}
	}
	rq := &request{op: ops[i], payload: ops[i].payload()}
	if err := decode(payload, rq.payload); err != nil {
		return nil, err
	}
	st, err := live.Status(ctx)
	if err != nil {
		return nil, err
	}
	rq.s = &Server{}
	rq.s.session = &session{s: rq.s, live: live, folders: frontend.FoldersOf(st), from: from}
	return ops[i].handle(ctx, rq)
}
