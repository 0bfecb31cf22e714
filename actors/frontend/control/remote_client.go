package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// SessionClient is a [api.Service] in another process.
type SessionClient struct {
	path string
	pid  int // of the session's process; 0 if not asked for
	c    *Client
}

var _ api.Service = (*SessionClient)(nil)

// DialSession connects to the control socket of a session in another process. The
// result is a *[SessionClient].
func DialSession(ctx context.Context, socketPath string) (api.Service, error) {
	c, err := Dial(ctx, socketPath)
	if err != nil {
		return nil, fmt.Errorf("session does not answer at %s: %w", socketPath, err)
	}
	return &SessionClient{path: socketPath, c: c}, nil
}

func remoteCall[R any](ctx context.Context, c *SessionClient, method string, params any) (r R, err error) {
	err = c.c.Call(ctx, method, params, &r, nil)
	return r, fromWire(err)
}

// Status implements [api.Service].
func (c *SessionClient) Status(ctx context.Context) (api.Status, error) {
	return remoteCall[api.Status](ctx, c, "status", none{})
}

// History implements [api.Service].
func (c *SessionClient) History(ctx context.Context, r api.HistoryRequest) ([]undolog.Entry, error) {
	return remoteCall[[]undolog.Entry](ctx, c, "history", r)
}

// Show implements [api.Service].
func (c *SessionClient) Show(ctx context.Context, r api.StepRequest) (undolog.StepDetail, error) {
	return remoteCall[undolog.StepDetail](ctx, c, "show", r)
}

// Output implements [api.Service].
func (c *SessionClient) Output(ctx context.Context, r api.StepRequest) ([]undolog.CommandOutput, error) {
	return remoteCall[[]undolog.CommandOutput](ctx, c, "output", r)
}

// Diff implements [api.Service].
func (c *SessionClient) Diff(ctx context.Context, r api.StepRequest, w io.Writer) error {
	return c.stream(ctx, "diff", r, w)
}

// Content implements [api.Service].
func (c *SessionClient) Content(ctx context.Context, r api.ContentRequest, w io.Writer) error {
	return c.stream(ctx, "content", r, w)
}

// stream calls a method that answers with bytes.
func (c *SessionClient) stream(ctx context.Context, method string, params any, w io.Writer) error {
	return fromWire(c.c.Call(ctx, method, params, nil, func(part json.RawMessage) error {
		var b []byte
		if err := json.Unmarshal(part, &b); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	}))
}

// Undo implements [api.Service].
func (c *SessionClient) Undo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return remoteCall[api.UndoResult](ctx, c, "undo", r)
}

// Redo implements [api.Service].
func (c *SessionClient) Redo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return remoteCall[api.UndoResult](ctx, c, "redo", r)
}

// Restore implements [api.Service].
func (c *SessionClient) Restore(ctx context.Context, r api.RestoreRequest) (api.UndoResult, error) {
	return remoteCall[api.UndoResult](ctx, c, "restore", r)
}

// Mark implements [api.Service].
func (c *SessionClient) Mark(ctx context.Context, r api.MarkRequest) ([]undolog.Mark, error) {
	return remoteCall[[]undolog.Mark](ctx, c, "mark", r)
}

// GC implements [api.Service].
func (c *SessionClient) GC(ctx context.Context, r api.GCRequest) (undolog.GCResult, error) {
	return remoteCall[undolog.GCResult](ctx, c, "gc", r)
}

// Pending implements [api.Service].
func (c *SessionClient) Pending(ctx context.Context) ([]api.Pending, error) {
	return remoteCall[[]api.Pending](ctx, c, "pending", none{})
}

// Decide implements [api.Service].
func (c *SessionClient) Decide(ctx context.Context, r api.DecideRequest) error {
	_, err := remoteCall[none](ctx, c, "decide", r)
	return err
}

// Decisions implements [api.Decisions].
func (c *SessionClient) Decisions(ctx context.Context) ([]api.Decided, error) {
	return remoteCall[[]api.Decided](ctx, c, "decisions", none{})
}

// TakeBack implements [api.Decisions].
func (c *SessionClient) TakeBack(ctx context.Context, r api.TakeBackRequest) error {
	_, err := remoteCall[none](ctx, c, "take_back", r)
	return err
}

// Inspect implements [api.Service].
func (c *SessionClient) Inspect(ctx context.Context) (api.Tree, error) {
	return remoteCall[api.Tree](ctx, c, "inspect", none{})
}

// Network implements [api.Networked].
func (c *SessionClient) Network(ctx context.Context) (api.NetworkStatus, error) {
	return remoteCall[api.NetworkStatus](ctx, c, "network", none{})
}

// Subscribe calls f for every event, from one goroutine, until ctx or the
// session ends, and returns why. It uses a connection of its own.
func (c *SessionClient) Subscribe(ctx context.Context, f func(api.Event)) error {
	conn, err := Dial(ctx, c.path)
	if err != nil {
		return err
	}
	err = conn.Call(ctx, "subscribe", none{}, nil, func(part json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(part, &e); err != nil {
			return err
		}
		f(e)
		return nil
	})
	return errors.Join(fromWire(err), conn.Close())
}

// Close implements [api.Service]: it disconnects.
func (c *SessionClient) Close(context.Context) error { return c.c.Close() }
