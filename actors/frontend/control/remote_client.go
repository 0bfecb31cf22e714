package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/codeagent/sandbox/actors/api"
)

// SessionClient is a [api.Service] in another process: its [api.Operations] are those of [api.Remote].
type SessionClient struct {
	api.Remote
	path string
	pid  int // of the session's process; 0 if not asked for
	c    *Client
}

var _ api.Service = (*SessionClient)(nil)

func newSessionClient(path string, pid int, c *Client) *SessionClient {
	return &SessionClient{Remote: api.Remote{Wire: wire{c}}, path: path, pid: pid, c: c}
}

// DialSession connects to the control socket of a session in another process. The
// result is a *[SessionClient].
func DialSession(ctx context.Context, socketPath string) (api.Service, error) {
	c, err := Dial(ctx, socketPath)
	if err != nil {
		return nil, fmt.Errorf("session does not answer at %s: %w", socketPath, err)
	}
	return newSessionClient(socketPath, 0, c), nil
}

// wire gives errors their identity back.
type wire struct{ c *Client }

// Ask implements [api.Wire].
func (w wire) Ask(ctx context.Context, operation string, request, result any) error {
	return fromWire(w.c.Call(ctx, operation, request, result, nil))
}

// Stream implements [api.Wire].
func (w wire) Stream(ctx context.Context, operation string, request any, out io.Writer) error {
	return fromWire(w.c.Call(ctx, operation, request, nil, func(part json.RawMessage) error {
		var b []byte
		if err := json.Unmarshal(part, &b); err != nil {
			return err
		}
		_, err := out.Write(b)
		return err
	}))
}

// Subscribe calls f for every event, from one goroutine, until ctx or the
// session ends, and returns why. It uses a connection of its own.
func (c *SessionClient) Subscribe(ctx context.Context, f func(api.Event)) error {
	conn, err := Dial(ctx, c.path)
	if err != nil {
		return err
	}
	err = conn.Call(ctx, "subscribe", api.None{}, nil, func(part json.RawMessage) error {
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
