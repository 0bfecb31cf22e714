package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/socket"
)

// ErrDisconnected is returned by calls whose connection ended first.
var ErrDisconnected = errors.New("control: the session hung up")

// Client is a connection to a control socket. Methods are safe for concurrent
// use.
type Client struct {
	conn *socket.Conn
	done chan struct{}

	mu    sync.Mutex // calls, next
	calls map[uint64]*call
	next  uint64
	write sync.Mutex // one line at a time; never taken with mu

	// asked is the number of a request that was sent before this client had the connection, or 0.
	// Nothing is read until somebody waits for its answer.
	asked uint64
	begun func() // starts to read, once
}

type call struct {
	part   func(json.RawMessage, []*os.File) error
	answer chan *Response
}

// Dial connects.
func Dial(ctx context.Context, path string) (*Client, error) {
	conn, err := socket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := socket.Trusted(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), conn.Close())
	}
	c, err := newClient(conn, nil)
	if err == nil {
		c.begun()
	}
	return c, err
}

// Adopt is a client on a connection on which somebody has sent a request already, with the number asked,
// and has read answer: that which is there of its answer. The first [Client.Do] stands for that request and sends nothing; it
// is called before any other. Conn is closed; the client has a descriptor of its own.
func Adopt(conn *os.File, asked uint64, answer []byte) (*Client, error) {
	stream, err := net.FileConn(conn)
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	c, err := newClient(stream, answer)
	if err == nil {
		c.asked, c.next = asked, asked-1
	}
	return c, err
}

func newClient(conn net.Conn, before []byte) (*Client, error) {
	stream, ok := conn.(*socket.Conn)
	if !ok {
		return nil, errors.Join(errors.ErrUnsupported, conn.Close())
	}
	c := &Client{conn: stream, done: make(chan struct{}), calls: map[uint64]*call{}}
	c.begun = sync.OnceFunc(func() { go c.read(before) })
	return c, nil
}

// Done is closed when the session has hung up, or the client.
func (c *Client) Done() <-chan struct{} { return c.done }

// Peer returns the user and the process on the other side.
func (c *Client) Peer() (uid, pid int, err error) { return socket.Credentials(c.conn) }

// Close hangs up; calls under way get ErrDisconnected. It is no error that the
// other side was first.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.begun()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// read takes answers; before is what was read of them.
func (c *Client) read(before []byte) {
	defer close(c.done)
	in := newFileReader(c.conn)
	defer in.close()
	lines := frontend.NewLines(io.MultiReader(bytes.NewReader(before), in), MaxResponse)
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
		files, err := in.take(resp.FDs)
		if err != nil {
			_ = c.conn.Close()
			return
		}
		c.mu.Lock()
		call := c.calls[resp.ID]
		if call != nil && resp.Part == nil {
			delete(c.calls, resp.ID)
		}
		c.mu.Unlock()
		if call == nil || call.part == nil || resp.Part == nil {
			closeFiles(files)
		}
		switch {
		case call == nil:
		case resp.Part == nil:
			call.answer <- &resp
		case call.part != nil:
			if err := call.part(resp.Part, files); err != nil {
				c.mu.Lock()
				delete(c.calls, resp.ID)
				c.mu.Unlock()
				call.answer <- &Response{Error: &Error{Code: "client", Message: err.Error()}}
			}
		}
	}
}

// Ask is a request of a [Client].
type Ask struct {
	Method string
	Params any
	// Files go with it; they stay the caller's.
	Files []*os.File
	// Part, which may be nil, gets the parts in order, from one goroutine. The
	// files that come with a part are its own.
	Part func(part json.RawMessage, files []*os.File) error
	// Finish makes the end of the context cancel the request in the session and wait
	// for its answer. Without it, the call is given up, and the session may still
	// carry it out.
	Finish bool
}

// Call is [Client.Do] of a request without files.
func (c *Client) Call(ctx context.Context, method string, params, result any, part func(json.RawMessage) error) error {
	a := Ask{Method: method, Params: params}
	if part != nil {
		a.Part = func(m json.RawMessage, files []*os.File) error {
			closeFiles(files)
			return part(m)
		}
	}
	return c.Do(ctx, a, result)
}

// Do sends a request and decodes its result into result (which may be nil). A
// failure of the method is an *Error.
func (c *Client) Do(ctx context.Context, a Ask, result any) error {
	call := &call{part: a.Part, answer: make(chan *Response, 1)}
	id := c.begin(call)
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	if id == c.asked {
		c.begun()
	} else if err := c.send(id, a); err != nil {
		return err
	}
	over := ctx.Done()
	for {
		select {
		case resp := <-call.answer:
			return resp.decode(result)
		case <-over:
			if !a.Finish {
				return ctx.Err()
			}
			over = nil
			// The answer is that of the request itself; a broken connection ends it, too.
			_ = c.send(c.begin(nil), Ask{Method: MethodCancel, Params: cancelParams{id}})
		case <-c.done:
			select {
			case resp := <-call.answer:
				return resp.decode(result)
			default:
				return ErrDisconnected
			}
		}
	}
}

// begin numbers a request. Nobody waits for the answer of one without a call.
func (c *Client) begin(call *call) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	if call != nil {
		c.calls[c.next] = call
	}
	return c.next
}

func (c *Client) send(id uint64, a Ask) error {
	p, err := json.Marshal(a.Params)
	if err != nil {
		return err
	}
	line, err := json.Marshal(Request{ID: id, Method: a.Method, Params: p, FDs: len(a.Files)})
	if err != nil {
		return err
	}
	if len(line) > MaxRequest {
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("a request is at most %d bytes", MaxRequest)}
	}
	c.write.Lock()
	defer c.write.Unlock()
	if _, err = writeFiles(c.conn, append(line, '\n'), a.Files); err != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return nil
}

// decode returns the error of an answer, or decodes its result.
func (r *Response) decode(result any) error {
	if r.Error != nil {
		return r.Error
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}
