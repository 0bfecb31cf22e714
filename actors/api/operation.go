package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
)

// Operation is one request of a session, as every frontend passes it on: its names, what it takes and gives, and who carries it out. A frontend has a table of
// [Operations], and forms of its own only where what it shows differs.
//
// The row of an operation stands beside the types of its request and result, and beside the line of [Remote] that asks another process for it.
type Operation struct {
	// Control is its name on the control socket, STDIO that over STDIO. Where it has none it is not offered.
	Control, STDIO string
	Traits         Traits
	// Member is what a result that is no object is called over STDIO, where each answer is one: its only member. Says describes that.
	Member, Says string
	Call
}

// Traits say how an operation may be treated.
type Traits uint8

// The traits.
const (
	// Reads: it changes nothing.
	Reads Traits = 1 << iota
	// Large: its answer may be.
	Large
	// Stops: it may be given up before its end.
	Stops
	// Decides: it answers somebody who waits, and so never waits for its turn.
	Decides
	// Commands: it comes when commands can run.
	Commands
)

// Call is how an operation is carried out.
type Call struct {
	// Request and Result are the types of what it takes and gives, By the interface that has the method.
	Request, Result, By reflect.Type
	// Streams says that what it gives is written, and the result has nothing.
	Streams bool

	blank func() any
	do    func(ctx context.Context, session, request any, out io.Writer) (any, error)
}

// New makes a request to be filled in: a pointer.
func (c Call) New() any { return c.blank() }

// Do carries out a request that [Call.New] has made. What the operation streams goes to out. The error wraps [errors.ErrUnsupported] if the session has no such
// method, and is a [*FieldError] if the request cannot be meant, whatever the session.
func (c Call) Do(ctx context.Context, session, request any, out io.Writer) (any, error) {
	if v, ok := request.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return c.do(ctx, session, request, out)
}

// None is the request of what needs none, and the result of what gives none.
type None struct{}

// FieldError is what is wrong with a field of a request.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// call is a [Call] of a method of S.
func call[S, P, R any](do func(ctx context.Context, session S, request P, out io.Writer) (R, error)) Call {
	return Call{
		Request: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), By: reflect.TypeFor[S](),
		blank: func() any { return new(P) },
		do: func(ctx context.Context, session, request any, out io.Writer) (any, error) {
			s, ok := session.(S)
			if !ok {
				return nil, fmt.Errorf("%w: this session has no %s", errors.ErrUnsupported, reflect.TypeFor[S]().Name())
			}
			return do(ctx, s, *request.(*P), out)
		},
	}
}

// asks takes a request and gives a result.
func asks[S, P, R any](f func(S, context.Context, P) (R, error)) Call {
	return call(func(ctx context.Context, s S, p P, _ io.Writer) (R, error) { return f(s, ctx, p) })
}

// gets takes nothing.
func gets[S, R any](f func(S, context.Context) (R, error)) Call {
	return call(func(ctx context.Context, s S, _ None, _ io.Writer) (R, error) { return f(s, ctx) })
}

// tells gives nothing.
func tells[S, P any](f func(S, context.Context, P) error) Call {
	return call(func(ctx context.Context, s S, p P, _ io.Writer) (None, error) { return None{}, f(s, ctx, p) })
}

// streams writes what it gives.
func streams[S, P any](f func(S, context.Context, P, io.Writer) error) Call {
	c := call(func(ctx context.Context, s S, p P, out io.Writer) (None, error) { return None{}, f(s, ctx, p, out) })
	c.Streams = true
	return c
}

// Operations are all of them.
func Operations() []Operation {
	return slices.Concat(statusOperations(), historyOperations(), undoOperations(), decisionOperations(), networkOperations(), serviceOperations(), commandOperations(), fileOperations())
}

// Remote is a session of another process: each of its methods asks for one of the [Operations] by its name on the control socket.
type Remote struct{ Wire Wire }

// Wire takes requests to a session of another process. Its methods are safe for concurrent use.
type Wire interface {
	// Ask sends a request, and decodes what comes back into result, which may be nil.
	Ask(ctx context.Context, operation string, request, result any) error
	// Stream sends one whose operation streams, and writes to out what comes.
	Stream(ctx context.Context, operation string, request any, out io.Writer) error
}

func ask[R any](ctx context.Context, c Remote, operation string, request any) (r R, err error) {
	err = c.Wire.Ask(ctx, operation, request, &r)
	return r, err
}

func tell(ctx context.Context, c Remote, operation string, request any) error {
	return c.Wire.Ask(ctx, operation, request, nil)
}
