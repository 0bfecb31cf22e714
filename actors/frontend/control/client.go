package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/codeagent/sandbox/actors/frontend"
)

// ErrDisconnected is returned by calls whose connection ended first.
var ErrDisconnected = errors.New("control: the session hung up")

// Client is a connection to a control socket. Methods are safe for concurrent
// use.
type Client struct {
	conn net.Conn
	done chan struct{}

	mu    sync.Mutex // calls, next
	calls map[uint64]*call
	next  uint64
	write sync.Mutex // one line at a time; never taken with mu
}

type call struct {
	part   func(json.RawMessage) error
	answer chan *Response
}

// Dial connects.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, done: make(chan struct{}), calls: map[uint64]*call{}}
	go c.read()
	return c, nil
}

// Close hangs up; calls under way get ErrDisconnected. It is no error that the
// other side was first.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Client) read() {
	defer close(c.done)
	lines := frontend.NewLines(c.conn, MaxResponse)
	for {
		line, err := lines.Next()
		if err != nil {
			_ = c.conn.Close()
			return
		}
		var resp Response
		if json.Unmarshal(line, &resp) != nil {
			continue
		}
		c.mu.Lock()
		call := c.calls[resp.ID]
		if call != nil && resp.Part == nil {
			delete(c.calls, resp.ID)
		}
		c.mu.Unlock()
		switch {
		case call == nil:
		case resp.Part == nil:
			call.answer <- &resp
		case call.part != nil:
			if err := call.part(resp.Part); err != nil {
				c.mu.Lock()
				delete(c.calls, resp.ID)
				c.mu.Unlock()
				call.answer <- &Response{Error: &Error{Code: "client", Message: err.Error()}}
			}
		}
	}
}

// Call sends a request and decodes its result into result (which may be nil).
// part, which may be nil, gets the parts in order, from one goroutine. A
// failure of the method is an *Error. When ctx ends the call is given up; the
// session may still carry it out.
func (c *Client) Call(ctx context.Context, method string, params, result any, part func(json.RawMessage) error) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	call := &call{part: part, answer: make(chan *Response, 1)}
	c.mu.Lock()
	c.next++
	id := c.next
	c.calls[id] = call
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	line, err := json.Marshal(Request{ID: id, Method: method, Params: p})
	if err != nil {
		return err
	}
	c.write.Lock()
	_, err = c.conn.Write(append(line, '\n'))
	c.write.Unlock()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	select {
	case resp := <-call.answer:
		if resp.Error != nil {
			return resp.Error
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(resp.Result, result)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		select {
		case resp := <-call.answer:
			if resp.Error != nil {
				return resp.Error
			}
			if result != nil {
				return json.Unmarshal(resp.Result, result)
			}
			return nil
		default:
			return ErrDisconnected
		}
	}
}
