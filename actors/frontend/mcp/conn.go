package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// Limits of one connection. What goes beyond is answered with an error, and
// never kept in memory.
const (
	// MaxMessageBytes is the longest message that is read.
	MaxMessageBytes = 1 << 20
	// MaxCalls is how many calls of a connection may be without their answer,
	// and maxCallBytes how long they may be together.
	MaxCalls     = 64
	maxCallBytes = 8 << 20
	// maxNotificationBytes bounds what the SDK queues without a limit.
	maxNotificationBytes = 16 << 10
	// writeTimeout bounds how long a client of the socket may leave an answer
	// unread.
	writeTimeout = 30 * time.Second
)

// codeOverloaded is the JSON-RPC code for "try again later".
const codeOverloaded = -32000

// transport carries JSON-RPC messages, one a line. It stands in for the SDK's
// own, which ends the connection at the first message that it cannot read,
// accepts any number of calls at once, and takes the last of two equal keys.
type transport struct {
	in  io.Reader
	out io.Writer
	// close ends the connection; it unblocks a Read of in where that is possible.
	close func() error
	// session is the one that calls work on, or nil; the function may be nil.
	session func() api.Live
	// refused hears of each message that is answered with an error of the protocol; nil: nobody does.
	refused func(code int64)
}

// Connect implements [sdk.Transport].
func (t *transport) Connect(context.Context) (sdk.Connection, error) { return t.open(), nil }

func (t *transport) open() *conn {
	c := &conn{
		t: t, in: frontend.NewLines(t.in, MaxMessageBytes), lines: make(chan line), closed: make(chan struct{}), calls: map[jsonrpc.ID]admitted{},
	}
	c.member = member{session: t.session, figures: c.figures, crashed: func(error) { go c.Close() }}
	go c.read()
	return c
}

// line is what was read: a message, or why there is none.
type line struct {
	text    []byte
	tooLong bool
	id      json.RawMessage // of a message that was too long, if it has one
	err     error
}

// conn is one client. Its methods are safe for concurrent use.
type conn struct {
	t      *transport
	in     *frontend.Lines
	sent   atomic.Int64
	lines  chan line
	once   sync.Once
	closed chan struct{}
	err    error

	writing sync.Mutex // one line at a time

	mu    sync.Mutex // calls, bytes
	calls map[jsonrpc.ID]admitted
	bytes int

	member member
}

// admitted is a call without its answer.
type admitted struct {
	bytes int
	id    string // as JSON
}

// figures are what the actor shows.
func (c *conn) figures() api.Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Figures{InFlight: len(c.calls), In: c.in.Read(), Out: c.sent.Load()}
}

// read reads lines until the end. It may stay behind, blocked, when the
// connection is closed: a read of a pipe cannot always be ended.
func (c *conn) read() {
	for {
		var l line
		text, err := c.in.Next()
		switch {
		case errors.Is(err, frontend.ErrLineTooLong):
			l.tooLong, l.id = true, answerable(c.in.Skip("id"))
		case err != nil:
			l.err = err
		default:
			l.text = bytes.TrimSpace(bytes.Clone(text))
		}
		select {
		case c.lines <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
		// Who has got the line goes on at once, on this thread: the next read
		// keeps it, and another would have to be woken first.
		runtime.Gosched()
	}
}

// Read implements [sdk.Connection]. What is no valid message is answered here,
// and the next one read.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var l line
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case l = <-c.lines:
		}
		switch {
		case l.err != nil:
			return nil, l.err
		case l.tooLong:
			if err := c.refuse(l.id, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", MaxMessageBytes)); err != nil {
				return nil, err
			}
		case len(l.text) > 0:
			msg, err := c.message(ctx, l.text)
			if msg != nil || err != nil {
				return msg, err
			}
		}
	}
}

// message decodes and admits one message; it returns nil if that was answered
// or dropped.
func (c *conn) message(ctx context.Context, text []byte) (jsonrpc.Message, error) {
	env, problem := inspect(text)
	if problem != nil {
		return nil, c.refuse(env.ID, problem.code, problem.text)
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, c.refuse(env.ID, jsonrpc.CodeInvalidRequest, err.Error())
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return msg, nil
	}
	if !req.IsCall() {
		if len(text) > maxNotificationBytes || req.Method != "notifications/initialized" && req.Method != "notifications/cancelled" {
			return nil, nil // a notification has no answer, and no other one matters here
		}
		return msg, nil
	}
	c.mu.Lock()
	_, twice := c.calls[req.ID]
	full := len(c.calls) >= MaxCalls || c.bytes+len(text) > maxCallBytes
	if !twice && !full {
		c.calls[req.ID] = admitted{len(text), string(env.ID)}
		c.bytes += len(text)
	}
	c.mu.Unlock()
	switch {
	case twice:
		return nil, c.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the id %v is in use by another request", req.ID.Raw()))
	case full:
		return nil, c.refuse(env.ID, codeOverloaded, fmt.Sprintf("too many requests at once: wait for answers (at most %d requests or %d bytes may be unanswered)", MaxCalls, maxCallBytes))
	}
	c.member.join(ctx).Begin(string(env.ID), nil)
	return msg, nil
}

// refuse answers a message that the SDK does not get to see.
func (c *conn) refuse(id json.RawMessage, code int64, text string) error {
	c.note(code)
	if id == nil {
		id = json.RawMessage("null")
	}
	b, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": frontend.Told(text)},
	})
	if err != nil {
		return err
	}
	return c.send(b)
}

// note tells of a refusal.
func (c *conn) note(code int64) {
	if c.t.refused != nil {
		c.t.refused(code)
	}
}

// told is an error with the text that a client gets: the SDK's repeat whatever name was wrong.
func told(err error) error {
	text := frontend.Told(err.Error())
	if text == err.Error() {
		return err
	}
	out := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		out.Code, out.Data = wire.Code, wire.Data
	}
	return out
}

// Write implements [sdk.Connection].
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	r, answers := msg.(*jsonrpc.Response)
	if answers && r.Error != nil {
		msg = &jsonrpc.Response{ID: r.ID, Error: told(r.Error), Extra: r.Extra}
		code := int64(jsonrpc.CodeInternalError)
		if wire := (*jsonrpc.Error)(nil); errors.As(r.Error, &wire) {
			code = wire.Code
		}
		c.note(code)
	}
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if answers {
		c.mu.Lock()
		call := c.calls[r.ID]
		c.bytes -= call.bytes
		delete(c.calls, r.ID)
		c.mu.Unlock()
		c.member.end(call.id)
	}
	return c.send(b)
}

func (c *conn) send(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
	}
	if d, ok := c.t.out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(writeTimeout)) // a pipe or a file may have none
	}
	n, err := c.t.out.Write(append(b, '\n'))
	c.sent.Add(int64(n))
	if err != nil {
		_ = c.Close() // half a line may be out
	}
	return err
}

// Close implements [sdk.Connection].
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.err = c.t.close()
	})
	return c.err
}

// SessionID implements [sdk.Connection].
func (c *conn) SessionID() string { return "" }
