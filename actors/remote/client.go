package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Client is a [api.Service] in another process.
type Client struct {
	path string
	pid  int // of the session's process; 0 if not asked for
	c    *control.Client
}

var _ api.Service = (*Client)(nil)

// Dial connects to the control socket of a session in another process. The
// result is a *[Client].
func Dial(ctx context.Context, socketPath string) (api.Service, error) {
	c, err := control.Dial(ctx, socketPath)
	if err != nil {
		return nil, fmt.Errorf("session does not answer at %s: %w", socketPath, err)
	}
	return &Client{path: socketPath, c: c}, nil
}

func call[R any](ctx context.Context, c *Client, method string, params any) (r R, err error) {
	err = c.c.Call(ctx, method, params, &r, nil)
	return r, fromWire(err)
}

// Status implements [api.Service].
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return call[api.Status](ctx, c, "status", none{})
}

// History implements [api.Service].
func (c *Client) History(ctx context.Context, r api.HistoryRequest) ([]undolog.Entry, error) {
	return call[[]undolog.Entry](ctx, c, "history", r)
}

// Show implements [api.Service].
func (c *Client) Show(ctx context.Context, r api.StepRequest) (undolog.StepDetail, error) {
	return call[undolog.StepDetail](ctx, c, "show", r)
}

// Output implements [api.Service].
func (c *Client) Output(ctx context.Context, r api.StepRequest) ([]undolog.CommandOutput, error) {
	return call[[]undolog.CommandOutput](ctx, c, "output", r)
}

// Diff implements [api.Service].
func (c *Client) Diff(ctx context.Context, r api.StepRequest, w io.Writer) error {
	return c.stream(ctx, "diff", r, w)
}

// Content implements [api.Service].
func (c *Client) Content(ctx context.Context, r api.ContentRequest, w io.Writer) error {
	return c.stream(ctx, "content", r, w)
}

// stream calls a method that answers with bytes.
func (c *Client) stream(ctx context.Context, method string, params any, w io.Writer) error {
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
func (c *Client) Undo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return call[api.UndoResult](ctx, c, "undo", r)
}

// Redo implements [api.Service].
func (c *Client) Redo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return call[api.UndoResult](ctx, c, "redo", r)
}

// Restore implements [api.Service].
func (c *Client) Restore(ctx context.Context, r api.RestoreRequest) (api.UndoResult, error) {
	return call[api.UndoResult](ctx, c, "restore", r)
}

// Mark implements [api.Service].
func (c *Client) Mark(ctx context.Context, r api.MarkRequest) ([]undolog.Mark, error) {
	return call[[]undolog.Mark](ctx, c, "mark", r)
}

// GC implements [api.Service].
func (c *Client) GC(ctx context.Context, r api.GCRequest) (undolog.GCResult, error) {
	return call[undolog.GCResult](ctx, c, "gc", r)
}

// Pending implements [api.Service].
func (c *Client) Pending(ctx context.Context) ([]api.Pending, error) {
	return call[[]api.Pending](ctx, c, "pending", none{})
}

// Decide implements [api.Service].
func (c *Client) Decide(ctx context.Context, r api.DecideRequest) error {
	_, err := call[none](ctx, c, "decide", r)
	return err
}

// Decisions implements [api.Decisions].
func (c *Client) Decisions(ctx context.Context) ([]api.Decided, error) {
	return call[[]api.Decided](ctx, c, "decisions", none{})
}

// TakeBack implements [api.Decisions].
func (c *Client) TakeBack(ctx context.Context, r api.TakeBackRequest) error {
	_, err := call[none](ctx, c, "take_back", r)
	return err
}

// Inspect implements [api.Service].
func (c *Client) Inspect(ctx context.Context) (api.Tree, error) {
	return call[api.Tree](ctx, c, "inspect", none{})
}

// Network implements [api.Networked].
func (c *Client) Network(ctx context.Context) (api.NetworkStatus, error) {
	return call[api.NetworkStatus](ctx, c, "network", none{})
}

// Subscribe calls f for every event, from one goroutine, until ctx or the
// session ends, and returns why. It uses a connection of its own.
func (c *Client) Subscribe(ctx context.Context, f func(api.Event)) error {
	conn, err := control.Dial(ctx, c.path)
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
func (c *Client) Close(context.Context) error { return c.c.Close() }
