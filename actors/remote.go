package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// codes are the sentinel errors that keep their identity across the socket.
var codes = []struct {
	code string
	err  error
}{
	{"busy", messages.ErrBusy},
	{"stopped", messages.ErrStopped},
	{"crashed", messages.ErrCrashed},
	{"no_directory", messages.ErrNoDirectory},
	{"read_only_directory", messages.ErrReadOnlyDirectory},
	{"denied", messages.ErrDenied},
	{"no_machine", messages.ErrNoMachine},
	{"no_safeguard", messages.ErrNoSafeguard},
	{"step_open", undolog.ErrBusy},
	{"no_step", undolog.ErrNoStep},
	{"nothing_to_undo", undolog.ErrNothing},
	{"nothing_to_redo", undolog.ErrNoRedo},
	{"unprotected", undolog.ErrUnprotected},
	{"damaged", undolog.ErrDamaged},
	{"closed", undolog.ErrClosed},
	{"undo_dir", undolog.ErrUndoDir},
	{"unsupported", errors.ErrUnsupported},
}

// toWire gives an error its code, and the data of those that carry some.
func toWire(err error) *control.Error {
	e := &control.Error{Code: "failed", Message: err.Error()}
	var (
		barrier *undolog.BarrierError
		decided *messages.DecidedError
		version *undolog.VersionError
		wire    *control.Error
	)
	data := func(code string, v any) *control.Error {
		e.Code = code
		e.Data, _ = json.Marshal(v)
		return e
	}
	switch {
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &barrier):
		return data("barrier", barrier.Barriers)
	case errors.As(err, &decided):
		return data("decided", decided)
	case errors.As(err, &version):
		return data("version_mismatch", version)
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			e.Code = c.code
			break
		}
	}
	return e
}

// remoteError is an error of another process, with its identity.
type remoteError struct {
	msg   string
	cause error
}

func (e *remoteError) Error() string { return e.msg }
func (e *remoteError) Unwrap() error { return e.cause }

func fromWire(err error) error {
	var e *control.Error
	if !errors.As(err, &e) {
		return err
	}
	data := func(cause error, into any) error {
		if json.Unmarshal(e.Data, into) != nil {
			return e
		}
		return &remoteError{e.Message, cause}
	}
	switch e.Code {
	case "barrier":
		b := &undolog.BarrierError{}
		return data(b, &b.Barriers)
	case "decided":
		d := &messages.DecidedError{}
		return data(d, d)
	case "version_mismatch":
		v := &undolog.VersionError{}
		return data(v, v)
	}
	for _, c := range codes {
		if c.code == e.Code {
			return &remoteError{e.Message, c.err}
		}
	}
	return e
}

// method decodes a request, calls f and lets the result be encoded.
func method[P, R any](f func(context.Context, P) (R, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		var p P
		if len(params) > 0 {
			d := json.NewDecoder(bytes.NewReader(params))
			d.DisallowUnknownFields()
			if err := d.Decode(&p); err != nil {
				return nil, &control.Error{Code: control.CodeBadRequest, Message: "parameters: " + err.Error()}
			}
		}
		return f(ctx, p)
	}
}

type none struct{}

// handle serves the control socket.
func (s *Session) handle(ctx context.Context, name string, params json.RawMessage, emit func(any) error) (any, error) {
	methods := map[string]func(context.Context, json.RawMessage) (any, error){
		"status":  method(func(ctx context.Context, _ none) (Status, error) { return s.Status(ctx) }),
		"history": method(s.History),
		"show":    method(s.Show),
		"undo":    method(s.Undo),
		"redo":    method(s.Redo),
		"restore": method(s.Restore),
		"gc":      method(s.GC),
		"pending": method(func(ctx context.Context, _ none) ([]Pending, error) { return s.Pending(ctx) }),
		"decide":  method(func(ctx context.Context, r DecideRequest) (none, error) { return none{}, s.Decide(ctx, r) }),
		"inspect": method(func(ctx context.Context, _ none) (Tree, error) { return s.Inspect(ctx) }),
		"diff": method(func(ctx context.Context, r StepRequest) (none, error) {
			return none{}, s.Diff(ctx, r, partWriter(emit))
		}),
		"subscribe": method(func(ctx context.Context, _ none) (none, error) { return none{}, s.stream(ctx, emit) }),
	}
	f := methods[name]
	if f == nil {
		return nil, &control.Error{Code: control.CodeUnknownMethod, Message: fmt.Sprintf("unknown method %q", name)}
	}
	return f(ctx, params)
}

// stream sends events until the client or the session is gone.
func (s *Session) stream(ctx context.Context, emit func(any) error) error {
	broken := make(chan error, 1)
	cancel := s.bus.Subscribe(func(e Event) {
		if err := emit(e); err != nil {
			select {
			case broken <- err:
			default:
			}
		}
	})
	defer cancel()
	select {
	case err := <-broken:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return messages.ErrStopped
	}
}

// partWriter sends bytes as parts (base64 in JSON: a diff need not be UTF-8).
type partWriter func(any) error

func (w partWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 64<<10)
		if err := w(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Client is a [Service] in another process.
type Client struct {
	path string
	c    *control.Client
}

var _ Service = (*Client)(nil)

// Dial connects to the control socket of a session in another process. The
// result is a *[Client].
func Dial(ctx context.Context, socketPath string) (Service, error) {
	c, err := control.Dial(ctx, socketPath)
	if err != nil {
		return nil, fmt.Errorf("session does not answer at %s: %w", socketPath, err)
	}
	return &Client{socketPath, c}, nil
}

func call[R any](ctx context.Context, c *Client, method string, params any) (r R, err error) {
	err = c.c.Call(ctx, method, params, &r, nil)
	return r, fromWire(err)
}

// Status implements [Service].
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "status", none{})
}

// History implements [Service].
func (c *Client) History(ctx context.Context, r HistoryRequest) ([]undolog.Entry, error) {
	return call[[]undolog.Entry](ctx, c, "history", r)
}

// Show implements [Service].
func (c *Client) Show(ctx context.Context, r StepRequest) (undolog.StepDetail, error) {
	return call[undolog.StepDetail](ctx, c, "show", r)
}

// Diff implements [Service].
func (c *Client) Diff(ctx context.Context, r StepRequest, w io.Writer) error {
	return fromWire(c.c.Call(ctx, "diff", r, nil, func(part json.RawMessage) error {
		var b []byte
		if err := json.Unmarshal(part, &b); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	}))
}

// Undo implements [Service].
func (c *Client) Undo(ctx context.Context, r UndoRequest) (UndoResult, error) {
	return call[UndoResult](ctx, c, "undo", r)
}

// Redo implements [Service].
func (c *Client) Redo(ctx context.Context, r UndoRequest) (UndoResult, error) {
	return call[UndoResult](ctx, c, "redo", r)
}

// Restore implements [Service].
func (c *Client) Restore(ctx context.Context, r RestoreRequest) (UndoResult, error) {
	return call[UndoResult](ctx, c, "restore", r)
}

// GC implements [Service].
func (c *Client) GC(ctx context.Context, r GCRequest) (undolog.GCResult, error) {
	return call[undolog.GCResult](ctx, c, "gc", r)
}

// Pending implements [Service].
func (c *Client) Pending(ctx context.Context) ([]Pending, error) {
	return call[[]Pending](ctx, c, "pending", none{})
}

// Decide implements [Service].
func (c *Client) Decide(ctx context.Context, r DecideRequest) error {
	_, err := call[none](ctx, c, "decide", r)
	return err
}

// Inspect implements [Service].
func (c *Client) Inspect(ctx context.Context) (Tree, error) {
	return call[Tree](ctx, c, "inspect", none{})
}

// Subscribe calls f for every event, from one goroutine, until ctx or the
// session ends, and returns why. It uses a connection of its own.
func (c *Client) Subscribe(ctx context.Context, f func(Event)) error {
	conn, err := control.Dial(ctx, c.path)
	if err != nil {
		return err
	}
	err = conn.Call(ctx, "subscribe", none{}, nil, func(part json.RawMessage) error {
		var e Event
		if err := json.Unmarshal(part, &e); err != nil {
			return err
		}
		f(e)
		return nil
	})
	return errors.Join(fromWire(err), conn.Close())
}

// Close implements [Service]: it disconnects.
func (c *Client) Close(context.Context) error { return c.c.Close() }
