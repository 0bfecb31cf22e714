package api_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

// asked keeps what a session is asked for.
type asked struct {
	operation string
	request   any
	result    any
	streams   bool
}

func (a *asked) Ask(_ context.Context, operation string, request, result any) error {
	*a = asked{operation, request, result, false}
	return nil
}

func (a *asked) Stream(_ context.Context, operation string, request any, _ io.Writer) error {
	*a = asked{operation, request, nil, true}
	return nil
}

// Each method of a remote session asks for the operation that takes and gives the same, and each operation has one.
func TestRemoteAsksForEachOperation(t *testing.T) {
	left := map[string]api.Operation{}
	for _, o := range api.Operations() {
		if o.Control != "" {
			if _, twice := left[o.Control]; twice {
				t.Errorf("%s is there twice", o.Control)
			}
			left[o.Control] = o
		}
	}
	for m := range reflect.TypeFor[api.Remote]().Methods() {
		var last asked
		in := []reflect.Value{reflect.ValueOf(api.Remote{Wire: &last}), reflect.ValueOf(t.Context())}
		for i := 2; i < m.Type.NumIn(); i++ {
			p := reflect.New(m.Type.In(i)).Elem()
			if p.Kind() == reflect.Interface {
				p.Set(reflect.ValueOf(io.Discard))
			}
			in = append(in, p)
		}
		m.Func.Call(in)
		o, there := left[last.operation]
		if !there {
			t.Errorf("%s asks for %q, which is no operation, or is asked for by another method, too", m.Name, last.operation)
			continue
		}
		delete(left, last.operation)
		if have, there := o.By.MethodByName(m.Name); !there || have.Type.NumIn() != m.Type.NumIn()-1 {
			t.Errorf("%s asks for %q, which is carried out by a method of %s", m.Name, last.operation, o.By)
		}
		if reflect.TypeOf(last.request) != o.Request || o.Streams != last.streams || last.result != nil && reflect.TypeOf(last.result).Elem() != o.Result {
			t.Errorf("%s sends %T for %T, the operation takes %s for %s", m.Name, last.request, last.result, o.Request, o.Result)
		}
	}
	for name := range left {
		t.Errorf("nobody can ask another process for %q", name)
	}
}

// A session that does not have an operation's method says so.
func TestOperationThatASessionHasNot(t *testing.T) {
	for _, o := range api.Operations() {
		if _, err := o.Do(t.Context(), struct{}{}, o.New(), io.Discard); !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, api.ErrService) && !errors.Is(err, api.ErrCommand) {
			t.Errorf("%s%s: %v", o.Control, o.STDIO, err)
		}
	}
}

// A session has the methods of all operations: it is a [api.Live].
func TestLiveHasEachOperation(t *testing.T) {
	for _, o := range api.Operations() {
		if !reflect.TypeFor[api.Live]().Implements(o.By) {
			t.Errorf("%s%s is of %s, which a session need not have", o.Control, o.STDIO, o.By)
		}
	}
}
