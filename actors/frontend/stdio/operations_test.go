package stdio

import (
	"reflect"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

// Each operation of the session that has a name here is offered, with an answer that holds what it gives.
func TestOperationsOfTheSession(t *testing.T) {
	offered := map[string]*operation{}
	for _, op := range operations() {
		if offered[op.name] != nil {
			t.Errorf("%s is there twice", op.name)
		}
		offered[op.name] = op
	}
	for _, o := range api.Operations() {
		op := offered[o.STDIO]
		switch {
		case o.STDIO == "":
		case op == nil:
			t.Errorf("%s is not offered", o.STDIO)
		case o.Streams && op.result == reflect.TypeFor[api.None]():
			t.Errorf("%s streams, and nobody gets that", o.STDIO)
		case op.result.Kind() != reflect.Struct:
			t.Errorf("%s answers with %s, which is no object: its row needs a Member", o.STDIO, op.result)
		}
	}
}
